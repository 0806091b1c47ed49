// materialize, bookkeeping, flash_bookkeeping, streaming, auto: one backward, in which every layer leaves what its
// clipped sum will need, and a second phase without weights, in which reductions overlap with the next product.
//
//   FLOPs of a linear layer 6 B T P D + norms     traffic under zero3 3 P     extra memory: what is kept
//
// With a threshold per group a group's second phase begins as soon as its last norm is known, inside of backward.
#pragma once

#include <c10/core/Storage.h>

#include <map>
#include <optional>
#include <tuple>
#include <variant>

#include "shade/privacy/clip/layer_norms.h"
#include "shade/privacy/clip/method.h"

namespace shade::privacy {

// For one linear layer: what is kept of it, and how its norms are found.
struct LayerChoice {
  Keep keep = Keep::books;
  NormAlgorithm norm = NormAlgorithm::automatic;
};

// Fixed by the method's row, or (auto) the cheapest by this estimate, per sample and layer:
//
//   gradients   kept 4 P D bytes          moved: each of P D elements written, read for its norm, read for the sum
//   books       kept e T (P + D) bytes    computed: Gram T^2 (P + D), or instantiate 2 T P D
//
// A memory pass over an element costs as much as kPass operations of a product. Gradients are kept where they are the
// smaller, or the faster as long as all that is kept stays within kRoomier times the books of all layers so far (an
// input that several layers share counts once) and within the budget. The same layers with the same shapes in the same
// order give the same choice on every rank and in every run: nothing depends on addresses.
class Chooser {
 public:
  // `samples`: what memory is reckoned with; 0: those of the micro-batch, which follow the drawn records.
  Chooser(const MethodRow& row, const ClipOptions& options, int64_t samples = 0)
      : row_(row), options_(options), samples_(samples) {}

  void begin() {
    kept_ = books_ = 0;
    input_ = {};
  }
  LayerChoice choose(const nn::LinearGrad& grad);
  void keeps(const at::Tensor& gradients_B);  // of an own layer, for which there is no choice: counted with the others

 private:
  NormAlgorithm timed(const nn::LinearGrad& grad);
  bool shares_input(const at::Tensor& a_BTD);  // with the layer before it

  MethodRow row_;
  ClipOptions options_;
  int64_t samples_;
  double kept_ = 0, books_ = 0;  // bytes in this micro-batch: kept, and if all were books
  // The last layer's input. Weak: its memory may be freed, but while this is held its storage's place is not used
  // again, so that another input can't be taken for it (an address would be: checkpointing frees and allocates in
  // between).
  struct Input {
    std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> storage;
    int64_t offset = 0;
  } input_;
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t>, NormAlgorithm> timings_;  // by B, T, P, D
};

class OnePass : public ClippingMethod {
 public:
  OnePass(const MethodRow& row, const MethodSetup& setup, const ClipOptions& options);

  std::span<const MethodPass> passes() const override;
  void begin(int64_t samples, int64_t blank = 0) override;
  void take(nn::LayerGrad grad) override;
  void finish() override;

 private:
  using Kept = std::variant<nn::LayerGrad, SampleGradients>;

  void keep(const nn::LinearGrad& grad, size_t group);
  void keep(const nn::ScaleShiftGrad& grad, size_t group);
  void keep(const nn::OwnGrad& grad, size_t group);
  void keep(Kept kept, size_t group);
  void settle(size_t group);

  Chooser chooser_;
  std::vector<std::vector<Kept>> kept_;  // by group, in backward order
};

}  // namespace shade::privacy
