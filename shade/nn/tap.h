// What backward tells about a layer's weights: the only thing a gradient method ever sees.
//
// Legend: B samples, T positions of a sample, D input width, P output width, V rows of a table.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "shade/nn/weight.h"

namespace shade::nn {

// The gradients of a layer that is of none of the kinds in nn/tap.h, as the layer itself says them.
//
// Only sample_gradients() must be given; plain sums and norms follow from it. A layer whose weight is a matrix that
// many positions share is better reported as LinearGrad (a convolution unfolds its input, nn/patch.cpp): its samples'
// gradients are then never made.

// Asked inside of GradientTap::take() alone, while the unit's weights are bound, on autograd's thread and without a
// graph. Every list has one tensor per weight of weights(), in that order.
class LayerRule {
 public:
  virtual ~LayerRule() = default;

  virtual std::vector<const Weight*> weights() const = 0;  // the trained ones; at least one

  // Each sample's gradient, [B, the weight's shape]. The same factors must give the same bits: methods of two passes
  // measure the first answer and sum the second.
  virtual std::vector<at::Tensor> sample_gradients() const = 0;

  // Summed over samples, in the weight's shape: for training without privacy.
  virtual std::vector<at::Tensor> sums() const;

  // Squared norms of sample_gradients(), [B] each, in fp64, for methods that don't keep those. No smaller than the
  // truth: a clipped sample would move the sum by more than the clip norm. Empty: taken from sample_gradients().
  virtual std::vector<at::Tensor> squares() const { return {}; }
};

// y = x W^T + b. The gradient of one sample is g^T a (P x D), its bias gradient the sum of g over T. A large head hands
// its weight over in slices of rows: then this is rows [row, row + P) of the weight, complete for all samples.
struct LinearGrad {
  at::Tensor a_BTD;           // x; may be undefined if `weight` is null
  at::Tensor g_BTP;           // gradient of y
  const Weight* weight;       // null: only the bias is trainable
  const Weight* bias;         // null: none, or frozen
  int64_t row = 0;            // first row of `weight` that g_BTP covers
  bool last = true;           // the last slice of this weight in this backward
  at::Tensor looked_up_BT{};  // a weight that is a lookup table too (tied): the ids this batch looked up
};

// y_t = table[ids_t]; ids equal to `padding` (-1: none) contribute nothing.
struct EmbeddingGrad {
  at::Tensor ids_BT;    // int64, from 0 to V - 1
  at::Tensor g_BTD;     // gradient of y
  const Weight* table;  // [V, D]; never null
  int64_t padding;      // an id, or -1
};

// y = xhat * scale + shift, position by position.
struct ScaleShiftGrad {
  at::Tensor xhat_BTD;  // normalised input
  at::Tensor g_BTD;     // gradient of y
  const Weight* scale;  // null: none, or frozen
  const Weight* shift;  // null: none, or frozen
};

// y = x + added, the same for every sample: a sample's gradient is g itself.
struct AddedGrad {
  at::Tensor g_BTD;     // gradient of y
  const Weight* added;  // [T, D] or [1, T, D]; never null
};

// Any other layer: it says its gradients itself (nn/own_layer.h makes such layers).
struct OwnGrad {
  at::Tensor g_B;                         // of the layer's output, [B, ...]
  std::shared_ptr<const LayerRule> rule;  // gives the gradients of the weights; never null
};

// What a layer with a trainable weight reports in backward.
using LayerGrad = std::variant<LinearGrad, EmbeddingGrad, ScaleShiftGrad, AddedGrad, OwnGrad>;

// Called in backward order, on autograd's thread.
class GradientTap {
 public:
  virtual ~GradientTap() = default;
  // A layer's gradients in one backward pass. A head that reports its weight in slices calls it for each of them.
  virtual void take(LayerGrad grad) = 0;
};

// A unit is what is gathered and released together; models mark where each begins and ends, in both directions.
// Recomputation (activation checkpointing) happens between enter and leave of backward and is not announced.
enum class Pass { forward, backward };
// Notified when a unit begins and ends; implemented by the sharding runtime.
class UnitObserver {
 public:
  virtual ~UnitObserver() = default;
  virtual void enter(UnitId unit, Pass pass) = 0;  // before the unit's first operation in this pass
  virtual void leave(UnitId unit, Pass pass) = 0;  // after its last one
};

// The gradient of samples that have `rows` rows each (nn::Batch::rows_per_sample), from that of rows. The positions of
// a sample's rows become its positions, [B, T, D] -> [B / rows, rows T, D], so that norms and sums over positions are
// those of the sample; what each row adds to a weight as a whole (AddedGrad, OwnGrad) is summed over them. A gradient
// whose first dimension is not divided by `rows` stays as it is: it has no samples, and clipping refuses it.
LayerGrad by_sample(LayerGrad grad, int64_t rows);

// What a model's layers are connected to. Set between micro-steps; null: not connected.
struct Wiring {
  GradientTap* tap = nullptr;     // receives gradients of weights
  UnitObserver* units = nullptr;  // notified when units begin and end
  int64_t rows_per_sample = 1;    // of the batch that is computed

  // Passes a gradient to the tap, by sample; without a tap it is dropped.
  void take(LayerGrad grad) const {
    if (tap != nullptr) tap->take(rows_per_sample == 1 ? std::move(grad) : by_sample(std::move(grad), rows_per_sample));
  }
};

}  // namespace shade::nn
