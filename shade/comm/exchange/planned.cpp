// exchange without peers: the algorithms run on meta tensors over a backend whose messages are complete from the start,
// so the bytes they send and the buffers they need are theirs to the byte. At once, on the caller's thread: what a lane
// holds meanwhile is held while the operation is issued.
#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "shade/base/memory_scope.h"
#include "shade/base/span.h"
#include "shade/comm/exchange/algorithms.h"
#include "shade/comm/transport.h"

namespace shade::comm {
namespace {

class Complete : public Pending {
 public:
  void wait() override {}
  bool done() const override { return true; }
};

at::Tensor shape_of(const at::Tensor& tensor) {
  return !tensor.defined() || tensor.is_meta() ? tensor : at::empty(tensor.sizes(), tensor.options().device(at::kMeta));
}

class Planned : public Transport {
 public:
  Planned(c10::intrusive_ptr<c10d::Backend> backend, int rank, std::vector<int> global_ranks, Bytes segment,
          std::unique_ptr<Transport> solo)
      : peers_(std::move(backend), rank, std::move(global_ranks)), segment_(segment), solo_(std::move(solo)) {}

  std::shared_ptr<Pending> submit(Operation op, Hooks hooks) override {
    hooks.started(Clock::now());
    const bool values = op.output.defined() && !op.output.is_meta();
    {
      const Span span("exchange");
      const MemoryScope scope(MemoryKind::communication);  // as a lane has it
      const at::NoGradGuard no_graph;
      auto shapes = op;
      shapes.output = shape_of(op.output);
      shapes.input = op.input.is_same(op.output) ? shapes.output : shape_of(op.input);
      exchange::carry_out(peers_, shapes, segment_);
    }
    const auto wire = peers_.take_sent();
    if (values) solo_->submit(std::move(op), {[](auto) {}, [](auto, auto) {}, [](auto) {}})->wait();
    hooks.ended(Clock::now(), wire);
    return std::make_shared<Complete>();
  }

  void refuse(std::exception_ptr reason) override { peers_.abort(std::move(reason)); }
  void abort(std::exception_ptr reason) override { peers_.abort(std::move(reason)); }

 private:
  Peers peers_;
  Bytes segment_;
  std::unique_ptr<Transport> solo_;
};

}  // namespace

std::unique_ptr<Transport> make_planned(c10::intrusive_ptr<c10d::Backend> backend, int rank,
                                        std::vector<int> global_ranks, Bytes segment, std::unique_ptr<Transport> solo) {
  return std::make_unique<Planned>(std::move(backend), rank, std::move(global_ranks), segment, std::move(solo));
}

}  // namespace shade::comm
