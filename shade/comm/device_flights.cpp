#include "shade/comm/device_flights.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <atomic>

#include "shade/base/log.h"
#include "shade/comm/errors.h"

namespace shade::comm {
namespace {

c10::Stream current_stream(c10::Device device) { return c10::impl::VirtualGuardImpl(device.type()).getStream(device); }

std::shared_ptr<c10::Event> recorded(const c10::Stream& stream) {
  auto event = std::make_shared<c10::Event>(stream.device_type(), c10::EventFlag::BACKEND_DEFAULT);  // with a time
  event->record(stream);
  return event;
}

Clock::duration between(const c10::Event& from, const c10::Event& to) {
  return std::chrono::duration_cast<Clock::duration>(Millis(from.elapsedTime(to)));
}

}  // namespace

class DeviceFlights::Flight final : public Pending {
 public:
  Flight(Operation operation, Issued issued, Hooks hooks, std::shared_ptr<const Ended> ended, const c10::Stream& issuer,
         std::shared_ptr<c10::Event> begin, std::shared_ptr<c10::Event> end)
      : operation_(std::move(operation)),
        issued_(std::move(issued)),
        hooks_(std::move(hooks)),
        ended_(std::move(ended)),
        issuer_(issuer),
        begin_(std::move(begin)),
        end_(std::move(end)) {}

  void wait() override {
    const std::lock_guard lock(mutex_);
    ended_->rethrow();
    const auto stream = current_stream(issuer_.device());
    Wait wait{recorded(stream), {}};
    try {
      if (issued_.work)
        issued_.work->wait();
      else
        (copied_ ? copied_ : end_)->block(stream);
    } catch (const std::exception& fault) {
      ended_->rethrow();
      throw CommError(fault.what());
    }
    ended_->rethrow();  // a backend that was aborted leaves garbage, and may not say so
    wait.passed = recorded(stream);
    if (!reported_) waits_.push_back(std::move(wait));
    if (issued_.copy_result) {
      std::exchange(issued_.copy_result, nullptr)();
      if (stream != issuer_)
        for (const auto& buffer : issued_.buffers) buffer.record_stream(stream);
      copied_ = recorded(stream);
    }
    waited_ = true;
    release();
  }

  bool done() const override {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    try {
      return lock && !issued_.copy_result && end_->query();
    } catch (const std::exception&) {
      return true;  // a device that has failed: wait() says so
    }
  }

  // True: there is nothing more to report. `last` is the end of the operation before it, and becomes that of this one.
  bool settle(bool in_turn, bool dropped, std::shared_ptr<c10::Event>& last, Clock::time_point& last_at) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return false;  // somebody is about to wait for it
    if (!landed_ && in_turn && end_->query()) {
      const auto since_last = between(*last, *end_);
      const auto took = std::min(between(*begin_, *end_), since_last);
      last_at += since_last;
      last = end_;
      hooks_.started(last_at - took);
      hooks_.ended(last_at, issued_.wire);
      landed_ = true;
    }
    while (!waits_.empty() && waits_.front().passed->query()) {
      hooks_.waited(between(*waits_.front().reached, *waits_.front().passed));
      waits_.pop_front();
    }
    if (!landed_ || !(waited_ || dropped) || !waits_.empty()) return false;
    release();
    return reported_ = true;
  }

  bool landed() const { return landed_; }

 private:
  struct Wait {
    std::shared_ptr<c10::Event> reached, passed;  // by a stream
  };

  void release() {
    operation_ = {};
    issued_.buffers.clear();
    issued_.work.reset();  // c10d's works and futures refer to their outputs
  }

  mutable std::mutex mutex_;
  Operation operation_;
  Issued issued_;
  Hooks hooks_;
  std::shared_ptr<const Ended> ended_;
  c10::Stream issuer_;
  std::shared_ptr<c10::Event> begin_, end_, copied_;
  std::deque<Wait> waits_;  // by streams that pass in any order: told in the order of the waits
  std::atomic<bool> landed_{false};
  bool waited_ = false;
  bool reported_ = false;  // all of it
};

DeviceFlights::DeviceFlights(c10::Device device, std::shared_ptr<const Ended> ended)
    : device_(device),
      watch_(c10::impl::VirtualGuardImpl(device.type()).getNewStream(device)),
      ended_(std::move(ended)),
      last_(recorded(watch_)) {
  last_->synchronize();  // of a stream that has no other work: the device's clock meets the host's
  last_at_ = Clock::now();
}

DeviceFlights::~DeviceFlights() = default;

std::shared_ptr<Pending> DeviceFlights::begin(Operation operation, Hooks hooks,
                                              const std::function<Issued(Operation&)>& issue) {
  settle();
  const std::lock_guard lock(mutex_);
  const auto issuer = current_stream(device_);
  auto begin = recorded(issuer);
  auto issued = issue(operation);
  std::shared_ptr<c10::Event> end;
  {
    const c10::StreamGuard on(watch_);
    issued.work->wait();
    end = recorded(watch_);
  }
  flights_.push_back(std::make_shared<Flight>(std::move(operation), std::move(issued), std::move(hooks), ended_, issuer,
                                              std::move(begin), std::move(end)));
  return flights_.back();
}

void DeviceFlights::settle() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  try {
    const c10::DeviceGuard on(device_);  // a thread that asks of another device's events would open that device too
    bool in_turn = true;
    for (auto flight = flights_.begin(); flight != flights_.end();) {  // a device that has failed throws between two
      const bool over = (*flight)->settle(in_turn, flight->use_count() == 1, last_, last_at_);
      in_turn = in_turn && (*flight)->landed();
      flight = over ? flights_.erase(flight) : std::next(flight);
    }
  } catch (const c10::Error& fault) {  // of the device; reported to the thread that waits
    log::debug("the device doesn't say how far it is: ", fault.what_without_backtrace());
  }
}

}  // namespace shade::comm
