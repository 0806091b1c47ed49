// A set of ranks and its collectives.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shade/comm/activity.h"
#include "shade/comm/collective.h"
#include "shade/comm/job/secret.h"
#include "shade/comm/traffic.h"
#include "shade/comm/transport.h"

namespace shade::comm {

// The handle of an asynchronous collective.

// Contract
//  - A collective returns at once. Until wait() has returned, its tensors belong to the transport: don't read the
//    output, don't write the input, don't resize either. The handle keeps them alive; the caller need not.
//  - wait() returns when the output is complete (CPU) or ordered before later work of the current stream
//    (a device; each thread that uses the output on its own stream waits there). It
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

struct GatherOptions {
  std::string label;
};
struct ReduceOptions {
  Reduce reduce = Reduce::sum;
  std::string label;
};
struct BroadcastOptions {
  int root = 0;  // rank within the group
  std::string label;
};
struct AllToAllOptions {
  std::vector<int64_t> output_splits;  // elements per rank; empty: equal parts
  std::vector<int64_t> input_splits;
  std::string label;
};
struct BarrierOptions {
  std::string label;
};

// A group's own secret, and how many messages were sealed with it (comm/job/sealed_store.h).
struct Seals {
  Secret secret;
  bool solo = false;  // a simulated group: every rank's message is this rank's own
  std::atomic<uint64_t> count{0};
};

// Relative to the sum of the absolute values: (W - 1) roundings in fp32 on each side.
inline double sum_tolerance(int ranks) { return 2 * (ranks - 1) * 0x1p-24; }

// A small value: copies are the same group. Every rank of a group must issue the same operations in the same order;
// different groups are independent and don't queue behind each other (make one per purpose: gathers, reductions,
// control). Thread-safe, as far as threads keep that order.
//
// Tensors are flat or contiguous; sizes need not be divisible by size(): slices follow comm/partition.h. Sums of bf16
// and fp16 inputs are added in fp32 and rounded once.
//
// On the CPU sums add in rank order 0, 1, ..., W-1: the result doesn't depend on which rank owns a slice, so all_reduce
// equals reduce_scatter + all_gather to the bit. On a device NCCL chooses the order, and may choose another one for
// another size, topology or version: any two sums of W numbers differ by at most sum_tolerance(W) of the sum of their
// absolute values, before the result is rounded to its type.
class Group {
 public:
  int rank() const;
  int size() const;
  const std::string& name() const;
  const std::vector<int>& global_ranks() const;

  // output [N] <- slices of all ranks; input is slice_of(N, size(), rank()), and may be that part of output itself.
  Work all_gather(at::Tensor output, at::Tensor input, GatherOptions options = {}) const;

  // output = slice_of(N, size(), rank()) of the sum over ranks of input [N]. The output may have a wider dtype.
  Work reduce_scatter(at::Tensor output, at::Tensor input, ReduceOptions options = {}) const;

  Work all_reduce(at::Tensor tensor, ReduceOptions options = {}) const;  // in place
  Work broadcast(at::Tensor tensor, BroadcastOptions options = {}) const;
  Work all_to_all(at::Tensor output, at::Tensor input, AllToAllOptions options = {}) const;
  Work barrier(BarrierOptions options = {}) const;

  Seals& seals() const;

  // From now on operations and waits fail with `reason`. Never blocks; abort() comes next.
  void refuse(std::exception_ptr reason) const;

  // Ends all operations under way with `reason`; the group is of no use afterwards.
  void abort(std::exception_ptr reason) const;

  void settle() const;  // records what a device has completed since; never blocks
  void close() const;   // normal end, after the last operation

  // Made by World; public for tests that bring their own transport.
  struct Parts {
    int rank = 0;
    std::vector<int> global_ranks;
    std::string name;
    std::unique_ptr<Transport> transport;
    std::shared_ptr<Activity> activity;
    std::shared_ptr<TrafficLog> traffic;
    std::shared_ptr<Seals> seals;
  };
  explicit Group(Parts parts);
  Group() = default;  // no group; any use is an error

 private:
  Work submit(Operation operation) const;
  const Parts& parts() const;

  std::shared_ptr<Parts> parts_;
};

}  // namespace shade::comm
