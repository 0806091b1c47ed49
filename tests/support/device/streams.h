// Streams, events and the host: what each knows to be finished.
//
// A command of a stream begins after all that its stream and the host knew when it was launched. An event holds its
// stream's clock; a stream that waits for it, or the host that synchronises with it, joins that clock. The host is one:
// what one thread has synchronised with, all threads know.
//
// Commands are carried out at once, by the launching thread. What takes real time is a collective (Unfinished): a
// command, or the host, that comes after it in the order waits for it in truth, too.
#pragma once

#include <c10/core/Stream.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/device/clock.h"

namespace shade::test::device {

using TimePoint = std::chrono::steady_clock::time_point;

// The current device and streams are a thread's own, as in CUDA. Stream 0 of a device is its default stream; it
// doesn't wait for the others.
c10::DeviceIndex current_device();
void set_current_device(c10::DeviceIndex device);
c10::Stream current_stream(c10::DeviceIndex device);
c10::Stream exchange_stream(c10::Stream stream);
c10::Stream new_stream(c10::DeviceIndex device);
c10::Stream pool_stream(c10::DeviceIndex device);  // one of 32, in turn

size_t number_of(const c10::Stream& stream);
std::string name_of_stream(size_t number);  // "stream 1 of shadow:0"

class Unfinished {
 public:
  virtual ~Unfinished() = default;
  virtual void finish() = 0;  // blocks until it is over, well or badly; doesn't throw
  virtual bool finished() = 0;
  virtual TimePoint finished_at() = 0;
};

// A stream's turn: while it lives no other command of the stream begins, and events of the stream are recorded after
// it.
class Turn {
 public:
  explicit Turn(const c10::Stream& stream);

  c10::DeviceIndex device() const { return device_; }
  size_t stream() const { return moment_.stream; }
  const Clock& clock() const { return clock_; }
  const Moment& moment() const { return moment_; }

  void await_unfinished() const;                        // what this command comes after is over in truth
  void leaves(std::shared_ptr<Unfinished> work) const;  // this command goes on after its turn

 private:
  c10::DeviceIndex device_;
  std::unique_lock<std::mutex> turn_;
  Moment moment_;
  Clock clock_;
};

Clock clock_of(const c10::Stream& stream);     // after all its commands so far; waits for the turn of the last
Clock launched_on(const c10::Stream& stream);  // the same, without waiting
Clock launched_on(c10::DeviceIndex device);    // of all its streams
void stream_waits(const c10::Stream& stream, const Clock& clock);  // commands from now on come after
void host_waits(const Clock& clock);                               // blocks; not counted as a synchronisation
bool host_asks(const Clock& clock);  // is all of it over? Then the host knows, as after waiting. Never blocks
Clock host_clock();
std::vector<std::shared_ptr<Unfinished>> unfinished(const Clock& clock);

// The host waits for all commands of a stream, counted.
void synchronise(const c10::Stream& stream);

}  // namespace shade::test::device
