// The backend's own collectives behind our contract: slices of any size, sums in fp32.
//
// What a backend lacks is added around it: sizes not divisible by W go through a padded buffer, bf16 and fp16 are
// widened before a sum and rounded after it. Wire bytes are those of the bandwidth-optimal algorithm for the tensors
// that the backend gets: widened ones count as they go.

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "shade/base/log.h"
#include "shade/comm/errors.h"
#include "shade/comm/partition.h"
#include "shade/comm/transport.h"

namespace shade::comm {
namespace {

// Operations that a device carries out: the host issues them and runs ahead, and events tell what became of them.
//
// wait() orders the caller's current stream behind the operation and returns; any number of streams may wait. Tensors
// are kept until the first of them does, or the operation is complete: then their memory may be used again in the order
// of that stream, without a record_stream that would hold it until the device has caught up.
//
// Times are the device's, put on the host's clock when settle() finds an event complete: an operation begins when the
// stream that issued it gets there and the one before it in the group is over, and a wait lasts as long as the stream
// stood still.

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

c10::Stream current_stream(c10::Device device) { return c10::impl::VirtualGuardImpl(device.type()).getStream(device); }

std::shared_ptr<c10::Event> recorded(const c10::Stream& stream) {
  auto event = std::make_shared<c10::Event>(stream.device_type(), c10::EventFlag::BACKEND_DEFAULT);  // with a time
  event->record(stream);
  return event;
}

Clock::duration between(const c10::Event& from, const c10::Event& to) {
  return std::chrono::duration_cast<Clock::duration>(Millis(from.elapsedTime(to)));
}

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

// On the CPU. c10d copies a result when it is waited for, so that is done once.
class HostPending : public Pending {
 public:
  HostPending(Issued issued, std::shared_ptr<const Ended> ended)
      : issued_(std::move(issued)), ended_(std::move(ended)) {}

  void wait() override {
    const std::lock_guard lock(mutex_);
    if (waited_) return;
    try {
      issued_.work->wait();
    } catch (const std::exception& fault) {
      ended_->rethrow();
      throw CommError(fault.what());
    }
    waited_ = true;
    if (issued_.copy_result) std::exchange(issued_.copy_result, nullptr)();
  }

  bool done() const override {
    const std::lock_guard lock(mutex_);
    return waited_ || (!issued_.copy_result && issued_.work->isCompleted());
  }

 private:
  mutable std::mutex mutex_;
  bool waited_ = false;
  Issued issued_;
  std::shared_ptr<const Ended> ended_;
};

c10d::ReduceOp native(Reduce reduce) {
  switch (reduce) {
    case Reduce::max: return c10d::ReduceOp::MAX;
    case Reduce::min: return c10d::ReduceOp::MIN;
    case Reduce::sum: break;
  }
  return c10d::ReduceOp::SUM;
}

at::ScalarType sum_type(at::ScalarType type) { return type == at::kBFloat16 || type == at::kHalf ? at::kFloat : type; }

// Some works of c10d have no future, and say so by throwing.
c10::intrusive_ptr<c10::ivalue::Future> future_of(c10d::Work& work) {
  try {
    return work.getFuture();
  } catch (const c10::Error&) {
    return {};
  }
}

class Native : public Transport {
 public:
  Native(c10::intrusive_ptr<c10d::Backend> backend, int rank, int size, c10::Device device)
      : backend_(std::move(backend)), rank_(rank), size_(size) {
    if (!device.is_cpu()) flights_.emplace(device, ended_);
  }

  std::shared_ptr<Pending> submit(Operation op, Hooks hooks) override {
    ended_->rethrow();
    if (flights_ && op.kind != Collective::barrier)  // a barrier is of hosts
      return flights_->begin(std::move(op), std::move(hooks), [this](Operation& given) { return issue(given); });
    hooks.started(Clock::now());
    auto issued = issue(op);
    auto ended = [ended = std::move(hooks.ended), wire = issued.wire] { ended(Clock::now(), wire); };
    if (const auto future = future_of(*issued.work))
      future->addCallback([ended](c10::ivalue::Future&) { ended(); }, /*uses_future=*/false);
    else if (issued.work->isCompleted())
      ended();
    else {  // the end is known at the wait only
      issued.copy_result = [ended, copy = std::move(issued.copy_result)] {
        ended();
        if (copy) copy();
      };
    }
    return std::make_shared<HostPending>(std::move(issued), ended_);
  }

  void refuse(std::exception_ptr reason) override { ended_->set(std::move(reason)); }

  void abort(std::exception_ptr reason) override {
    refuse(std::move(reason));
    backend_->abort();
  }

  void settle() override {
    if (flights_) flights_->settle();
  }

  void close() override {
    if (flights_) backend_->shutdown();
  }

 private:
  // Of the bandwidth-optimal algorithm, for a full buffer of so many bytes.
  Bytes wire_bytes(const Operation& op, const at::Tensor& full) const {
    const auto bytes = static_cast<int64_t>(full.nbytes());
    const auto others = bytes - bytes / size_;
    switch (op.kind) {
      case Collective::all_gather:
      case Collective::reduce_scatter:
      case Collective::all_to_all: return {others};
      case Collective::all_reduce: return {2 * others};
      case Collective::broadcast: return {rank_ == op.root ? bytes : 0};
      case Collective::barrier: return {0};
    }
    return {0};
  }

  Issued issue(Operation& op) {
    switch (op.kind) {
      case Collective::all_gather: return all_gather(op);
      case Collective::reduce_scatter: return reduce_scatter(op);
      case Collective::all_reduce: return all_reduce(op);
      case Collective::all_to_all:
        return {.work = backend_->all_to_all_single(op.output, op.input, op.output_splits, op.input_splits),
                .wire = wire_bytes(op, op.output.nbytes() > op.input.nbytes() ? op.output : op.input)};
      case Collective::broadcast: {
        std::vector<at::Tensor> tensors{op.output};
        c10d::BroadcastOptions options;
        options.rootRank = op.root;
        return {.work = backend_->broadcast(tensors, options), .wire = wire_bytes(op, op.output)};
      }
      case Collective::barrier: return {.work = backend_->barrier()};
    }
    SHADE_CHECK(false, "unknown collective");
  }

  Issued all_gather(Operation& op) {
    const auto total = op.output.numel();
    if (total % size_ == 0)
      return {.work = backend_->all_gather_single(op.output, op.input), .wire = wire_bytes(op, op.output)};
    const auto length = slice_length(total, size_);
    auto input = at::zeros({length}, op.input.options());
    input.narrow(0, 0, op.input.numel()).copy_(op.input);
    auto output = at::empty({length * size_}, op.output.options());
    return {.work = backend_->all_gather_single(output, input),
            .wire = wire_bytes(op, output),
            .buffers = {input, output},
            .copy_result = [output, into = op.output] { into.copy_(output.narrow(0, 0, into.numel())); }};
  }

  Issued reduce_scatter(Operation& op) {
    c10d::ReduceScatterOptions options;
    options.reduceOp = native(op.reduce);
    const auto total = op.input.numel();
    const auto type = sum_type(op.input.scalar_type());
    if (total % size_ == 0 && op.input.scalar_type() == type)
      return {.work = backend_->reduce_scatter_single(op.output, op.input, options), .wire = wire_bytes(op, op.input)};
    const auto length = slice_length(total, size_);
    auto input = at::zeros({length * size_}, op.input.options().dtype(type));
    input.narrow(0, 0, total).copy_(op.input);
    auto output = at::empty({length}, input.options());
    return {.work = backend_->reduce_scatter_single(output, input, options),
            .wire = wire_bytes(op, input),
            .buffers = {input, output},
            .copy_result = [output, into = op.output] { into.copy_(output.narrow(0, 0, into.numel())); }};
  }

  Issued all_reduce(Operation& op) {
    c10d::AllreduceOptions options;
    options.reduceOp = native(op.reduce);
    std::vector<at::Tensor> tensors{op.output.to(sum_type(op.output.scalar_type()))};
    const auto sum = tensors[0];
    Issued issued{.work = backend_->allreduce(tensors, options), .wire = wire_bytes(op, sum)};
    if (!sum.is_same(op.output)) {
      issued.buffers = {sum};
      issued.copy_result = [sum, into = op.output] { into.copy_(sum); };
    }
    return issued;
  }

  c10::intrusive_ptr<c10d::Backend> backend_;
  int rank_;
  int size_;
  std::shared_ptr<Ended> ended_ = std::make_shared<Ended>();
  std::optional<DeviceFlights> flights_;  // of a device
};

}  // namespace

std::unique_ptr<Transport> make_native(c10::intrusive_ptr<c10d::Backend> backend, int rank, int size,
                                       c10::Device device) {
  return std::make_unique<Native>(std::move(backend), rank, size, device);
}

}  // namespace shade::comm
