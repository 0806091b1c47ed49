// The handle of an asynchronous collective.
#pragma once

#include <memory>
#include <optional>

#include "shade/comm/traffic.h"

namespace shade::comm {

// Contract
//  - A collective returns at once. Until wait() has returned, its tensors belong to the transport: don't read the
//    output, don't write the input, don't resize either. The handle keeps them alive; the caller need not.
//  - wait() returns when the output is complete (CPU) or ordered before later work of the current stream
//    (a device; each thread that uses the output on a stream of its own waits there). It
//    throws CommError, or PeerLost if another rank is the cause; it may be called again and then says the same.
//  - done() never blocks and never throws.
//  - Dropping the handle does not cancel: the collective completes on its own, and an error is reported by the next
//    operation of the group.
//  - Copyable and thread-safe: copies are the same operation.
class Work {
 public:
  Work() = default;  // an operation that is already complete
  void wait() const;
  bool done() const;

  // What it moved and when, as far as it is known by now; nothing for a handle that never was an operation.
  std::optional<TrafficRecord> record() const;

 private:
  friend class Group;
  struct State;
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace shade::comm
