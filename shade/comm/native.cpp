// The backend's own collectives behind our contract: slices of any size, sums in fp32.
//
// What a backend lacks is added around it: sizes not divisible by W go through a padded buffer, bf16 and fp16 are
// widened before a sum and rounded after it. Wire bytes are those of the bandwidth-optimal algorithm.
#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <mutex>
#include <numeric>

#include "shade/comm/errors.h"
#include "shade/comm/partition.h"
#include "shade/comm/transport.h"

namespace shade::comm {
namespace {

class NativePending : public Pending {
 public:
  NativePending(c10::intrusive_ptr<c10d::Work> work, std::function<void()> finish)
      : work_(std::move(work)), finish_(std::move(finish)) {}

  void wait() override {
    const std::lock_guard lock(mutex_);
    try {
      if (finish_ || !waited_) work_->wait();
    } catch (const std::exception& fault) {
      throw CommError(fault.what());
    }
    waited_ = true;
    if (finish_) std::exchange(finish_, nullptr)();
  }

  bool done() const override {
    const std::lock_guard lock(mutex_);
    return waited_ || (!finish_ && work_->isCompleted());
  }

 private:
  mutable std::mutex mutex_;
  bool waited_ = false;
  c10::intrusive_ptr<c10d::Work> work_;
  std::function<void()> finish_;  // copies a padded or widened result to where the caller wants it
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
  Native(c10::intrusive_ptr<c10d::Backend> backend, int rank, int size)
      : backend_(std::move(backend)), rank_(rank), size_(size) {}

  std::shared_ptr<Pending> submit(Operation op, Hooks hooks) override {
    if (aborted_) std::rethrow_exception(aborted_);
    hooks.started();
    const Bytes wire = wire_bytes(op);
    std::function<void()> finish;
    auto work = issue(op, finish);
    auto ended = [ended = std::move(hooks.ended), wire] { ended(wire); };
    if (const auto future = future_of(*work))
      future->addCallback([ended](c10::ivalue::Future&) { ended(); });
    else if (work->isCompleted())
      ended();
    else {  // the end is known at the wait only
      finish = [ended, copy_out = std::move(finish)] {
        ended();
        if (copy_out) copy_out();
      };
    }
    return std::make_shared<NativePending>(std::move(work), std::move(finish));
  }

  void abort(std::exception_ptr reason) override {
    aborted_ = std::move(reason);
    backend_->abort();
  }

 private:
  Bytes wire_bytes(const Operation& op) const {
    const auto bytes = op.payload().count;
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

  c10::intrusive_ptr<c10d::Work> issue(Operation& op, std::function<void()>& finish) {
    switch (op.kind) {
      case Collective::all_gather: return all_gather(op, finish);
      case Collective::reduce_scatter: return reduce_scatter(op, finish);
      case Collective::all_reduce: return all_reduce(op, finish);
      case Collective::all_to_all:
        return backend_->all_to_all_single(op.output, op.input, op.output_splits, op.input_splits);
      case Collective::broadcast: {
        std::vector<at::Tensor> tensors{op.output};
        c10d::BroadcastOptions options;
        options.rootRank = op.root;
        return backend_->broadcast(tensors, options);
      }
      case Collective::barrier: return backend_->barrier();
    }
    SHADE_CHECK(false, "unknown collective");
  }

  c10::intrusive_ptr<c10d::Work> all_gather(Operation& op, std::function<void()>& finish) {
    const auto total = op.output.numel();
    if (total % size_ == 0) return backend_->all_gather_single(op.output, op.input);
    const auto length = slice_length(total, size_);
    auto input = at::zeros({length}, op.input.options());
    input.narrow(0, 0, op.input.numel()).copy_(op.input);
    auto output = at::empty({length * size_}, op.output.options());
    finish = [output, into = op.output, input] { into.copy_(output.narrow(0, 0, into.numel())); };
    return backend_->all_gather_single(output, input);
  }

  c10::intrusive_ptr<c10d::Work> reduce_scatter(Operation& op, std::function<void()>& finish) {
    c10d::ReduceScatterOptions options;
    options.reduceOp = native(op.reduce);
    const auto total = op.input.numel();
    const auto type = sum_type(op.input.scalar_type());
    if (total % size_ == 0 && op.input.scalar_type() == type)
      return backend_->reduce_scatter_single(op.output, op.input, options);
    const auto length = slice_length(total, size_);
    auto input = at::zeros({length * size_}, op.input.options().dtype(type));
    input.narrow(0, 0, total).copy_(op.input);
    auto output = at::empty({length}, input.options());
    finish = [output, into = op.output, input] { into.copy_(output.narrow(0, 0, into.numel())); };
    return backend_->reduce_scatter_single(output, input, options);
  }

  c10::intrusive_ptr<c10d::Work> all_reduce(Operation& op, std::function<void()>& finish) {
    c10d::AllreduceOptions options;
    options.reduceOp = native(op.reduce);
    std::vector<at::Tensor> tensors{op.output.to(sum_type(op.output.scalar_type()))};
    if (!tensors[0].is_same(op.output)) finish = [sum = tensors[0], into = op.output] { into.copy_(sum); };
    return backend_->allreduce(tensors, options);
  }

  c10::intrusive_ptr<c10d::Backend> backend_;
  int rank_;
  int size_;
  std::exception_ptr aborted_;
};

}  // namespace

std::unique_ptr<Transport> make_native(c10::intrusive_ptr<c10d::Backend> backend, int rank, int size) {
  return std::make_unique<Native>(std::move(backend), rank, size);
}

}  // namespace shade::comm
