#include "shade/privacy/clip/layer_norms.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/memory_scope.h"
#include "shade/base/span.h"
#include "shade/nn/gradients.h"
#include "shade/nn/launches.h"
#include "shade/privacy/norms/added.h"
#include "shade/privacy/norms/embedding.h"
#include "shade/privacy/norms/linear.h"
#include "shade/privacy/norms/rounding.h"
#include "shade/privacy/norms/scale_shift.h"

namespace shade::privacy {
namespace {

void add_squares(const nn::LinearGrad& grad, const NormOptions& options, SampleNorms& norms) {
  if (grad.weight != nullptr) {
    if (grad.looked_up_BT.defined()) norms.tied(*grad.weight).add(grad);
    const auto algorithm =
        options.algorithm == NormAlgorithm::automatic ? norm_costs(grad, options.tile).cheaper() : options.algorithm;
    norms.add(*grad.weight,
              algorithm == NormAlgorithm::gram
                  ? gram_squares(grad.a_BTD, grad.g_BTP, options.tile)
                  : instantiated_squares(grad.a_BTD, grad.g_BTP, norm_workspace(grad.g_BTP, options.workspace)));
  }
  if (grad.bias != nullptr) norms.add(*grad.bias, bias_squares(grad.g_BTP));
}

void add_squares(const nn::EmbeddingGrad& grad, const NormOptions&, SampleNorms& norms) {
  const auto& table = *grad.table;
  norms.add(table, norms.is_tied(table) ? norms.tied(table).lookup_squares(grad, norms.by_weight().at(table.id()))
                                        : embedding_squares(grad));
}

void add_squares(const nn::ScaleShiftGrad& grad, const NormOptions&, SampleNorms& norms) {
  if (grad.scale != nullptr) norms.add(*grad.scale, squares_of(scale_gradients(grad)));
  if (grad.shift != nullptr) norms.add(*grad.shift, squares_of(shift_gradients(grad)));
}

void add_squares(const nn::AddedGrad& grad, const NormOptions&, SampleNorms& norms) {
  norms.add(*grad.added, added_squares(grad));
}

void add_squares(const nn::OwnGrad& grad, const NormOptions&, SampleNorms& norms) {
  const auto weights = grad.rule->weights();
  const auto squares = grad.rule->squares();
  if (squares.empty()) {
    for (const auto& each : own_gradients(grad)) norms.add(*each.weight, squares_of(each.gradients_B));
    return;
  }
  SHADE_REQUIRE(squares.size() == weights.size(), "the rule of an own layer gave ", squares.size(), " norms for ",
                weights.size(), " weights, the first of them ", weights.front()->name(), "; expected one for each");
  for (size_t i = 0; i < weights.size(); ++i) {
    SHADE_REQUIRE(squares[i].sizes() == at::IntArrayRef{norms.samples()}, "weight ", weights[i]->name(),
                  ": the rule of its layer gave norms of shape ", squares[i].sizes(), " for ", norms.samples(),
                  " samples");
    norms.add(*weights[i], squares[i].clone());
  }
}

}  // namespace

void add_norms(const nn::LayerGrad& grad, const NormOptions& options, SampleNorms& norms) {
  const Span span(SpanName::norm, weights_of(grad).front()->id());
  const MemoryScope scope(MemoryKind::temporary);
  std::visit([&](const auto& kind) { add_squares(kind, options, norms); }, grad);
}

void add_norms(const nn::LinearGrad& grad, const SampleGradients& gradients, SampleNorms& norms) {
  const Span span(SpanName::norm, grad.weight->id());
  const MemoryScope scope(MemoryKind::temporary);
  if (grad.looked_up_BT.defined()) norms.tied(*grad.weight).add(grad, gradients.gradients_B);
  norms.add(*grad.weight, squares_of(gradients.gradients_B));
}

NormCosts norm_costs(const nn::LinearGrad& grad, int64_t wanted_tile) {
  const auto t = grad.g_BTP.size(1), p = grad.g_BTP.size(2), d = grad.a_BTD.size(2);
  const auto tile = wanted_tile == 0 && nn::few_launches(grad.g_BTP) ? t : gram_tile(grad.g_BTP, wanted_tile);
  return {gram_flops(t, d, p, std::max<int64_t>(1, tile)), instantiate_flops(t, d, p)};
}

}  // namespace shade::privacy
