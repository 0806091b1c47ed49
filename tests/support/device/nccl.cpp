// NCCL's place in comm (shade/comm/backends/backends.h), over Gloo: c10d's contract as ProcessGroupNCCL keeps it.
//
//   tensors    of the group's device alone, contiguous
//   stream     each group has its own. An operation comes after what the issuing thread's current stream has launched;
//              its output is poisoned at the issue and filled when Gloo is done
//   wait()     orders the calling thread's current stream after the operation and returns; a barrier's blocks the host.
//              Tensors are kept alive until then
//   future     complete at the issue; callbacks that use it run on a stream of the pool and record the outputs there
//   limit      of one operation; beyond it the operation fails, and the group with it
//   abort()    blocks until nothing is under way any more
#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <condition_variable>
#include <cstring>
#include <numeric>

#include "shade/comm/backends/backends.h"
#include "shade/comm/errors.h"
#include "shade/comm/transport.h"
#include "tests/support/device/device.h"
#include "tests/support/device/host_view.h"
#include "tests/support/device/memory.h"

namespace shade::test::device {
namespace {

using comm::Collective;
using comm::Operation;

// One operation from its issue to its end.
class UnderWay final : public Unfinished {
 public:
  UnderWay(comm::Transport& transport, std::string name, Seconds limit)
      : transport_(transport),
        name_(std::move(name)),
        deadline_(std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::milliseconds>(limit)) {}

  // `output` of the device gets what the operation leaves in its CPU output.
  void start(Operation operation, const at::Tensor& output) {
    result_ = operation.output;
    if (output.defined()) into_ = host_view(output);
    pending_ = transport_.submit(
        std::move(operation),
        {.started = [](TimePoint) {}, .ended = [this](TimePoint, Bytes) { end(); }, .waited = [](Seconds) {}});
  }

  void finish() override {
    std::unique_lock lock(mutex_);
    const auto over = [this] { return ended_; };
    if (!changed_.wait_until(lock, deadline_, over)) {
      lock.unlock();
      transport_.abort(std::make_exception_ptr(comm::CommError(text(name_, " exceeded the limit of one operation"))));
      lock.lock();
      changed_.wait(lock, over);
    }
    deliver();
  }

  bool finished() override {
    const std::lock_guard lock(mutex_);
    if (ended_) deliver();
    return ended_;
  }

  bool overdue() const { return std::chrono::steady_clock::now() > deadline_; }
  TimePoint finished_at() override {
    finish();
    return ended_at_;
  }

  std::exception_ptr fault() {
    finish();
    return fault_;
  }

 private:
  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    ended_at_ = std::chrono::steady_clock::now();
    changed_.notify_all();
  }

  void deliver() {
    if (!pending_) return;
    try {
      std::exchange(pending_, nullptr)->wait();
      if (into_.defined()) into_.copy_(result_);
    } catch (...) {
      fault_ = std::current_exception();
    }
    result_.reset();
  }

  comm::Transport& transport_;
  std::string name_;
  TimePoint deadline_, ended_at_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  at::Tensor result_, into_;
  std::shared_ptr<comm::Pending> pending_;
  std::exception_ptr fault_;
};

class StreamWork final : public c10d::Work {
 public:
  StreamWork(int rank, c10d::OpType type, c10::Stream stream, bool barrier)
      : c10d::Work(rank, type), stream_(stream), barrier_(barrier) {}

  // Nobody waited: the memory stays back until the host knows that the operation is over.
  ~StreamWork() override {
    for (const auto& tensor : kept) record_stream(tensor.storage().data_ptr(), stream_);
  }

  bool isCompleted() override {
    if (!under_way->finished() && !under_way->overdue()) return false;
    host_waits(clock);
    return true;
  }
  bool isSuccess() const override { return under_way->finished() && !under_way->fault(); }
  std::exception_ptr exception() const override { return under_way->finished() ? under_way->fault() : nullptr; }

  bool wait(std::chrono::milliseconds) override {
    const auto mine = current_stream(stream_.device_index());
    stream_waits(mine, clock);
    if (barrier_) device::synchronise(mine);
    if (const auto fault = exception()) std::rethrow_exception(fault);
    const std::lock_guard lock(mutex_);
    kept.clear();
    return true;
  }
  void synchronize() override { wait(kNoTimeout); }
  void blockCurrentStream() override { wait(kNoTimeout); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future; }
  std::vector<at::Tensor> result() override { return outputs; }

  std::shared_ptr<UnderWay> under_way;
  Clock clock;
  std::vector<at::Tensor> kept, outputs;
  c10::intrusive_ptr<c10::ivalue::Future> future;

 private:
  c10::Stream stream_;
  bool barrier_;
};

class ShadowBackend final : public c10d::Backend {
 public:
  ShadowBackend(c10::intrusive_ptr<c10d::Store> store, int rank, int size, const comm::BackendOptions& options)
      : c10d::Backend(rank, size),
        name_(options.name),
        device_(options.device),
        limit_(options.limit),
        stream_(new_stream(device_.index())) {
    std::vector<int> ranks(static_cast<size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    auto gloo = size > 1 ? comm::make_gloo(std::move(store), rank, size, options) : nullptr;
    transport_ = comm::make_exchange(std::move(gloo), rank, ranks, "shadow " + name_, MiB(4));
  }

  ~ShadowBackend() override {
    if (!shut_) count(device_.index(), [](Counters& all) { ++all.groups_left_open; });
    abort();  // nothing refers to the transport any more
  }

  const std::string getBackendName() const override { return "nccl"; }

  c10::intrusive_ptr<c10d::Work> all_gather_single(at::Tensor& output, at::Tensor& input,
                                                   const c10d::AllgatherOptions&) override {
    return issue({.kind = Collective::all_gather, .output = output, .input = input}, c10d::OpType::_ALLGATHER_BASE);
  }
  c10::intrusive_ptr<c10d::Work> reduce_scatter_single(at::Tensor& output, at::Tensor& input,
                                                       const c10d::ReduceScatterOptions& options) override {
    return issue(
        {.kind = Collective::reduce_scatter, .output = output, .input = input, .reduce = ours(options.reduceOp)},
        c10d::OpType::_REDUCE_SCATTER_BASE);
  }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    const auto& tensor = tensors.at(0);
    return issue({.kind = Collective::all_reduce, .output = tensor, .input = tensor, .reduce = ours(options.reduceOp)},
                 c10d::OpType::ALLREDUCE);
  }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    const auto& tensor = tensors.at(0);
    return issue(
        {.kind = Collective::broadcast, .output = tensor, .input = tensor, .root = static_cast<int>(options.rootRank)},
        c10d::OpType::BROADCAST);
  }
  c10::intrusive_ptr<c10d::Work> all_to_all_single(at::Tensor& output, at::Tensor& input,
                                                   std::vector<int64_t>& output_splits,
                                                   std::vector<int64_t>& input_splits,
                                                   const c10d::AllToAllOptions&) override {
    return issue({.kind = Collective::all_to_all,
                  .output = output,
                  .input = input,
                  .output_splits = output_splits,
                  .input_splits = input_splits},
                 c10d::OpType::ALLTOALL_BASE);
  }
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions&) override {
    return issue({.kind = Collective::barrier}, c10d::OpType::BARRIER);
  }

  void abort() override {
    shut_ = true;
    transport_->abort(std::make_exception_ptr(comm::CommError(text("group ", name_, " was aborted"))));
    for (const auto& work : unfinished(launched_on(stream_))) work->finish();
  }
  void shutdown() override {
    for (const auto& work : unfinished(launched_on(stream_))) work->finish();
    shut_ = true;
  }

 private:
  static comm::Reduce ours(const c10d::ReduceOp& op) {
    if (op == c10d::ReduceOp::MAX) return comm::Reduce::max;
    if (op == c10d::ReduceOp::MIN) return comm::Reduce::min;
    SHADE_CHECK(op == c10d::ReduceOp::SUM, "the emulated NCCL sums, or takes the maximum or minimum");
    return comm::Reduce::sum;
  }

  void check(const std::string& op, const at::Tensor& tensor) const {
    if (!tensor.defined()) return;
    if (tensor.device() != device_)
      throw DeviceFault(text(op, " on ", name_of_stream(number_of(stream_)), " got a tensor of ", tensor.device(), " (",
                             tensor.sizes(), "); tensors must be on ", device_, " and dense"));
    if (!tensor.is_contiguous())
      throw DeviceFault(
          text(op, " on ", name_of_stream(number_of(stream_)), ": ", describe(tensor), " is not contiguous"));
  }

  c10::intrusive_ptr<c10d::Work> issue(Operation op, c10d::OpType type) {
    const auto name = text(to_string(op.kind), " of group ", name_);
    SHADE_REQUIRE(!shut_, name, ": the group was shut down or aborted");
    check(name, op.output);
    check(name, op.input);
    auto work = c10::make_intrusive<StreamWork>(getRank(), type, stream_, op.kind == Collective::barrier);
    work->under_way = std::make_shared<UnderWay>(*transport_, name, limit_);
    stream_waits(stream_, clock_of(current_stream(device_.index())));
    {
      const Turn turn(stream_);
      if (op.input.defined()) access(turn, name, op.input, false);
      if (op.output.defined()) access(turn, name, op.output, true);
      turn.await_unfinished();
      for (const auto& tensor : {op.output, op.input})
        if (tensor.defined()) work->kept.push_back(tensor);
      if (op.output.defined()) work->outputs.push_back(op.output);
      const auto output = op.output;
      const bool in_place = op.output.defined() && op.output.is_same(op.input);
      if (op.input.defined()) op.input = host_view(op.input).clone();
      if (op.output.defined()) {
        op.output = in_place ? op.input : at::empty_like(host_view(output));
        std::memset(bytes_at(output.data_ptr()), kPoison, output.nbytes());
      }
      work->under_way->start(std::move(op), output);
      turn.leaves(work->under_way);
      work->clock = turn.clock();
    }
    count(device_.index(), [](Counters& all) { ++all.collectives; });
    work->future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                            std::vector<c10::Device>{device_});
    const auto before = exchange_stream(stream_);
    work->future->markCompleted(c10::IValue(work->outputs));
    exchange_stream(before);
    return work;
  }

  std::string name_;
  c10::Device device_;
  Seconds limit_;
  c10::Stream stream_;
  std::unique_ptr<comm::Transport> transport_;
  std::atomic<bool> shut_{false};
};

}  // namespace
}  // namespace shade::test::device

namespace shade::comm {

c10::intrusive_ptr<c10d::Backend> make_nccl(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                                            const BackendOptions& options) {
  return c10::make_intrusive<test::device::ShadowBackend>(std::move(store), rank, size, options);
}

void require_nccl() { nccl_device(0); }
bool nccl_built() { return true; }
int nccl_devices() { return test::device::device_count(); }
std::string nccl_version() { return "emulated"; }

c10::Device nccl_device(int local_rank) {
  const int devices = nccl_devices();
  SHADE_REQUIRE(devices == 1 || local_rank < devices, "local rank ", local_rank, " has no device of its own: ", devices,
                " on this host; start at most ", devices, " ranks here, or set SHADE_SHADOW_DEVICES");
  return test::device::shadow(devices == 1 ? 0 : local_rank);
}

}  // namespace shade::comm
