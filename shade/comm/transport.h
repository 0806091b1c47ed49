// How a group's operations are carried out. Internal to this module: callers see Group and Work.
//
//   exchange  our own algorithms on a backend's send and recv, one thread ("lane") per group         exchange/
//   native    the backend's own collectives                                                         native.cpp
//   planned   what exchange would do, counted in a simulated world exchange/planned.cpp
#pragma once

#include <exception>
#include <functional>
#include <memory>

#include "shade/comm/collective.h"

namespace c10d {
class Backend;
}

namespace shade::comm {

// What the transport tells about one operation, from any thread: when it was begun and ended, once each and in this
// order, and how long a device's stream stood still in a wait.
struct Hooks {
  std::function<void(Clock::time_point)> started;
  std::function<void(Clock::time_point, Bytes wire)> ended;
  std::function<void(Seconds)> waited;
};

// One operation under way. wait() may be called from several threads and more than once; it rethrows every time.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual void wait() = 0;
  virtual bool done() const = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  // Must not block. Operations of one transport are carried out in the order submitted.
  virtual std::shared_ptr<Pending> submit(Operation operation, Hooks hooks) = 0;

  // From now on operations and waits fail with `reason`. Never blocks; abort() comes next.
  virtual void refuse(std::exception_ptr reason) = 0;

  // Ends everything under way with `reason`; later operations fail at once. Idempotent, callable from any thread.
  virtual void abort(std::exception_ptr reason) = 0;

  // Calls the hooks of operations that a device has completed since. Never blocks.
  virtual void settle() {}

  // Normal end: a backend that holds resources of a device gives them back. Blocks until operations under way are over.
  virtual void close() {}
};

// `global_ranks[i]` is the world's rank of the group's i-th member, for messages.
std::unique_ptr<Transport> make_exchange(c10::intrusive_ptr<c10d::Backend> backend, int rank,
                                         std::vector<int> global_ranks, std::string name, Bytes segment);
// What exchange would send and allocate, on shapes alone, without peers; what tensors of a CPU hold in the end is
// `solo`'s.
std::unique_ptr<Transport> make_planned(c10::intrusive_ptr<c10d::Backend> backend, int rank,
                                        std::vector<int> global_ranks, Bytes segment, std::unique_ptr<Transport> solo);
// `device` is where the backend carries operations out.
std::unique_ptr<Transport> make_native(c10::intrusive_ptr<c10d::Backend> backend, int rank, int size,
                                       c10::Device device = c10::kCPU);

}  // namespace shade::comm
