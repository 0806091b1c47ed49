// The backend's own collectives behind our contract: slices of any size, sums in fp32.
//
// What a backend lacks is added around it: sizes not divisible by W go through a padded buffer, bf16 and fp16 are
// widened before a sum and rounded after it. Wire bytes are those of the bandwidth-optimal algorithm for the tensors
// that the backend gets: widened ones count as they go.
#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <mutex>
#include <optional>

#include "shade/comm/device_flights.h"
#include "shade/comm/errors.h"
#include "shade/comm/partition.h"
#include "shade/comm/transport.h"

namespace shade::comm {
namespace {

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
