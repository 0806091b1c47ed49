// Operations that a device carries out: the host issues them and runs ahead, and events tell what became of them.
//
// wait() orders the caller's current stream behind the operation and returns; any number of streams may wait. Tensors
// are kept until the first of them does, or the operation is complete: then their memory may be used again in the order
// of that stream, without a record_stream that would hold it until the device has caught up.
//
// Times are the device's, put on the host's clock when settle() finds an event complete: an operation begins when the
// stream that issued it gets there and the one before it in the group is over, and a wait lasts as long as the stream
// stood still.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "shade/comm/transport.h"

namespace shade::comm {

// An operation as a backend was asked for it.
struct Issued {
  c10::intrusive_ptr<c10d::Work> work;
  Bytes wire;                           // sent by this rank, as it crosses the wire
  std::vector<at::Tensor> buffers{};    // padded or widened tensors that it works on in place of the caller's
  std::function<void()> copy_result{};  // from them to where the caller wants it
};

// The first reason for which a group was ended. Thread-safe.
class Ended {
 public:
  void set(std::exception_ptr reason) {
    const std::lock_guard lock(mutex_);
    if (!reason_) reason_ = std::move(reason);
  }
  void rethrow() const {
    const std::lock_guard lock(mutex_);
    if (reason_) std::rethrow_exception(reason_);
  }

 private:
  mutable std::mutex mutex_;
  std::exception_ptr reason_;
};

// Of one group. Thread-safe.
class DeviceFlights {
 public:
  DeviceFlights(c10::Device device, std::shared_ptr<const Ended> ended);
  ~DeviceFlights();

  // `issue` asks the backend for `operation`, in the order of the caller's current stream.
  std::shared_ptr<Pending> begin(Operation operation, Hooks hooks, const std::function<Issued(Operation&)>& issue);

  // Reports what has been completed. Never blocks, and asks the device without waiting for it.
  void settle();

 private:
  class Flight;

  c10::Device device_;
  c10::Stream watch_;  // waits for every operation, so that an event can be recorded behind it
  std::shared_ptr<const Ended> ended_;

  std::mutex mutex_;
  std::deque<std::shared_ptr<Flight>> flights_;  // in the order issued
  std::shared_ptr<c10::Event> last_;             // the end of the last one that is complete, and its time
  Clock::time_point last_at_;
};

}  // namespace shade::comm
