// exchange without peers: the algorithms run on meta tensors over a backend whose messages are complete from the start,
// so the bytes they send and the buffers they need are theirs to the byte. At once, on the caller's thread. How long a
// lane takes is not known here: what it receives into is held as long as it may be, until somebody waits for the
// operation or the lane turns to its next one.
#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "shade/base/memory_scope.h"
#include "shade/base/span.h"
#include "shade/comm/exchange/algorithms.h"
#include "shade/comm/transport.h"

namespace shade::comm {
namespace {

// Tensors that messages arrive in.
using Arrivals = std::vector<at::Tensor>;

class Complete : public Pending {
 public:
  explicit Complete(std::shared_ptr<Arrivals> held) : held_(std::move(held)) {}
  void wait() override { held_->clear(); }
  bool done() const override { return true; }

 private:
  std::shared_ptr<Arrivals> held_;
};

// Messages of another backend, remembering what they arrive in.
class Remembering : public c10d::Backend {
 public:
  explicit Remembering(c10::intrusive_ptr<c10d::Backend> backend)
      : c10d::Backend(backend->getRank(), backend->getSize()), backend_(std::move(backend)) {}

  const std::string getBackendName() const override { return backend_->getBackendName(); }
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int to, int tag) override {
    return backend_->send(tensors, to, tag);
  }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int from, int tag) override {
    arrivals_.insert(arrivals_.end(), tensors.begin(), tensors.end());
    return backend_->recv(tensors, from, tag);
  }

  Arrivals take_arrivals() { return std::exchange(arrivals_, {}); }

 private:
  c10::intrusive_ptr<c10d::Backend> backend_;
  Arrivals arrivals_;
};

at::Tensor shape_of(const at::Tensor& tensor) {
  return !tensor.defined() || tensor.is_meta() ? tensor : at::empty(tensor.sizes(), tensor.options().device(at::kMeta));
}

class Planned : public Transport {
 public:
  Planned(c10::intrusive_ptr<c10d::Backend> backend, int rank, std::vector<int> global_ranks, Bytes segment,
          std::unique_ptr<Transport> solo)
      : messages_(c10::make_intrusive<Remembering>(std::move(backend))),
        peers_(messages_, rank, std::move(global_ranks)),
        segment_(segment),
        solo_(std::move(solo)) {}

  std::shared_ptr<Pending> submit(Operation op, Hooks hooks) override {
    hooks.started(Clock::now());
    held_->clear();  // a lane does one operation at a time
    const bool values = op.output.defined() && !op.output.is_meta();
    {
      const Span span(SpanName::exchange);
      const MemoryScope scope(MemoryKind::communication);  // as a lane has it
      const at::NoGradGuard no_graph;
      auto shapes = op;
      shapes.output = shape_of(op.output);
      shapes.input = op.input.is_same(op.output) ? shapes.output : shape_of(op.input);
      exchange::carry_out(peers_, shapes, segment_);
    }
    held_ = std::make_shared<Arrivals>(messages_->take_arrivals());
    const auto wire = peers_.take_sent();
    if (values) solo_->submit(std::move(op), {[](auto) {}, [](auto, auto) {}, [](auto) {}})->wait();
    hooks.ended(Clock::now(), wire);
    return std::make_shared<Complete>(held_);
  }

  void refuse(std::exception_ptr reason) override { peers_.abort(std::move(reason)); }
  void abort(std::exception_ptr reason) override { peers_.abort(std::move(reason)); }

 private:
  c10::intrusive_ptr<Remembering> messages_;
  Peers peers_;
  Bytes segment_;
  std::shared_ptr<Arrivals> held_ = std::make_shared<Arrivals>();  // by the latest operation
  std::unique_ptr<Transport> solo_;
};

}  // namespace

std::unique_ptr<Transport> make_planned(c10::intrusive_ptr<c10d::Backend> backend, int rank,
                                        std::vector<int> global_ranks, Bytes segment, std::unique_ptr<Transport> solo) {
  return std::make_unique<Planned>(std::move(backend), rank, std::move(global_ranks), segment, std::move(solo));
}

}  // namespace shade::comm
