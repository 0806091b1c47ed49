#include "shade/privacy/clip/sample_norms.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "shade/base/error.h"
#include "shade/base/json.h"
#include "shade/base/memory_scope.h"
#include "shade/nn/launches.h"

namespace shade::privacy {

SampleNorms::SampleNorms(const nn::Parameters& parameters, const Clipper& clipper)
    : parameters_(&parameters), clipper_(&clipper) {}

void SampleNorms::begin(int64_t samples) {
  samples_ = samples;
  seen_.assign(parameters_->weights().size(), {});
  pending_.assign(clipper_->groups(), 0);
  squares_.assign(clipper_->groups(), {});
  tied_.clear();
  by_weight_.clear();
  for (const auto& weight : parameters_->weights())
    if (weight.trainable()) ++pending_[clipper_->group_of(weight)];
}

void SampleNorms::require_first(const nn::Weight& weight) const {
  SHADE_REQUIRE(!seen_[static_cast<size_t>(weight.id())].done, "weight ", weight.name(),
                " is used twice in one forward pass, so the norms of its two gradients don't add up to that of their "
                "sum; use a separate weight for each layer, or freeze it");
}

void SampleNorms::finish(const nn::Weight& weight) {
  require_first(weight);
  seen_[static_cast<size_t>(weight.id())].done = true;
  --pending_[clipper_->group_of(weight)];
}

void SampleNorms::admit_rows(const nn::LinearGrad& grad) {
  const auto& weight = *grad.weight;
  auto& seen = seen_[static_cast<size_t>(weight.id())];
  SHADE_REQUIRE(seen.rows == grad.row, "weight ", weight.name(), " was reported from row ", grad.row, " after ",
                seen.rows,
                " rows: either it is used twice in one forward pass (use a separate weight for each "
                "layer, or freeze it), or its layer skips rows");
  seen.rows += grad.g_BTP.size(2);
  if (!grad.last) return;
  SHADE_REQUIRE(seen.rows == weight.shape()[0], "weight ", weight.name(), " has ", weight.shape()[0],
                " rows, of which its layer reported ", seen.rows);
  if (!grad.looked_up_BT.defined()) return finish(weight);
  require_first(weight);  // a tied table is complete with its lookup, which comes later in backward
}

void SampleNorms::admit(const nn::LayerGrad& grad) {
  const auto* own = std::get_if<nn::OwnGrad>(&grad);
  SHADE_REQUIRE(own == nullptr || (own->rule && !own->rule->weights().empty()),
                "an own layer reported a gradient without a rule, or of no weight; report only trained weights");
  const auto& g = output_gradient(grad);
  const auto weights = weights_of(grad);
  for (const auto* weight : weights) {
    SHADE_REQUIRE(clipper_->group_of(*weight) == clipper_->group_of(*weights.front()), "weights ",
                  weights.front()->name(), " and ", weight->name(),
                  " of one layer are clipped in different groups, so no one coefficient fits both; give them the same "
                  "unit and the same name up to the last dot");
    ++seen_[static_cast<size_t>(weight->id())].admitted;
    SHADE_REQUIRE(weight->trainable(), "weight ", weight->name(), " is frozen, but its layer reports a gradient");
    SHADE_REQUIRE((own != nullptr ? g.dim() > 0 : g.dim() == 3) && g.size(0) == samples_, "weight ", weight->name(),
                  ": its layer reports gradients of shape ", g.sizes(), ", but the batch has ", samples_,
                  " samples; a layer that merges or mixes samples has no gradient per sample. Keep the sample as the "
                  "first dimension");
    if (std::holds_alternative<nn::AddedGrad>(grad)) {
      const auto shape = at::IntArrayRef(weight->shape());  // [T, D] or [1, T, D]
      SHADE_REQUIRE(g.sizes().slice(1) == (shape.size() == 3 && shape[0] == 1 ? shape.slice(1) : shape), "weight ",
                    weight->name(), " of shape ", shape, " is added to each sample, but a sample's gradient has shape ",
                    g.sizes().slice(1),
                    ", so it was broadcast over positions; expected one vector for each position (nn::Added)");
    }
    if (const auto* linear = std::get_if<nn::LinearGrad>(&grad); linear != nullptr && weight == linear->weight) {
      admit_rows(*linear);
      continue;
    }
    if (seen_[static_cast<size_t>(weight->id())].rows > 0)
      SHADE_REQUIRE(std::holds_alternative<nn::EmbeddingGrad>(grad) && is_tied(*weight), "table ", weight->name(),
                    " is also the weight of a linear layer that doesn't say which rows were looked up, so the cross "
                    "term of its norm is unknown; tell the loss (LmLossOptions::looked_up_BT), or untie them");
    finish(*weight);
  }
}

void SampleNorms::add(const nn::Weight& weight, const at::Tensor& squares_B) {
  const MemoryScope scope(MemoryKind::norms);
  MemoryUse::changed(squares_B.storage().data_ptr().get_context(), MemoryKind::norms);
  ++seen_[static_cast<size_t>(weight.id())].measured;
  squares_[clipper_->group_of(weight)].push_back(squares_B.to(at::kDouble));
  auto& mine = by_weight_[weight.id()];
  mine = mine.defined() ? mine + squares_B : squares_B;
}

void SampleNorms::require_complete(std::optional<size_t> group) const {
  for (const auto& weight : parameters_->weights()) {
    if (!weight.trainable() || clipper_->group_of(weight) != group.value_or(clipper_->group_of(weight))) continue;
    const auto& seen = seen_[static_cast<size_t>(weight.id())];
    SHADE_REQUIRE(seen.done, "weight ", weight.name(),
                  " is trained, but no layer reported its gradient in this pass, so its part of the norm is unknown; "
                  "use it in the forward pass, or freeze it");
    SHADE_REQUIRE(seen.measured >= seen.admitted, "weight ", weight.name(), " was reported ", seen.admitted,
                  " times, and the clipping method added norms of it ", seen.measured,
                  " times, so samples would be clipped by less than their gradients; call add_norms "
                  "(clip/layer_norms.h) for each layer");
  }
}

at::Tensor SampleNorms::squares(size_t group) const {
  const auto& parts = squares_[group];
  if (nn::few_launches(parts.front())) return at::stack(parts).sum(0);
  auto sum = parts.front().clone();
  for (size_t i = 1; i < parts.size(); ++i) sum.add_(parts[i]);
  return sum;
}

at::Tensor SampleNorms::total() const {
  auto sum = squares(0);
  for (size_t group = 1; group < squares_.size(); ++group) sum.add_(squares(group));
  return sum;
}

namespace {

// Squares of fp32 gradients below 1e-19 vanish: a clip norm must be far above what is lost so.
constexpr double kSmallestNorm = 1e-10;

// Norms are raised by a share of the terms that they are sums of (norms/rounding.h): below this no product of fp32
// overflowed. A clip norm above would clip nothing that is not left out.
constexpr double kLargestNorm = 1e30;

// A coefficient of automatic clipping is at most C / gamma: it must be finite, and what vanishes of squares in fp64,
// 1e-150 of a norm, must stay nothing.
constexpr double kSmallestGamma = 1e-30;

// A group's name: the unit, or the module that the weight belongs to ("model.layers.0.mlp.up_proj").
std::string group_name(const nn::Weight& weight, ClipStyle style) {
  if (style == ClipStyle::group) return std::to_string(weight.unit());
  return weight.name().substr(0, weight.name().rfind('.'));
}

}  // namespace

Clipper::Clipper(const nn::Parameters& parameters, const PrivacyEvent& event, const ClipOptions& options)
    : options_(options),
      sigma_(event.mechanism.noise_multiplier),
      norm_(event.clip_norm),
      margin_(clip_margin(parameters.count_trainable())),
      group_of_(parameters.weights().size(), 0) {
  SHADE_REQUIRE(norm_ >= kSmallestNorm && norm_ <= kLargestNorm, "clip norm ", norm_, " is out of range; expected ",
                kSmallestNorm, " to ", kLargestNorm, ": --max-grad-norm");
  SHADE_REQUIRE(options.style != ClipStyle::automatic || options.gamma >= kSmallestGamma, "gamma ", options.gamma,
                " is out of range; automatic clipping needs ", kSmallestGamma, " or more: --dp.gamma");
  if (adaptive())
    SHADE_REQUIRE(sigma_ == 0 || 2 * options.count_sigma > sigma_, "count_sigma ", options.count_sigma,
                  " leaves nothing for the gradient; adaptive clipping with --sigma ", sigma_,
                  " needs more than half of that");
  if (options.style != ClipStyle::per_layer && options.style != ClipStyle::group) return;
  std::map<std::string, size_t> known;
  for (const auto& weight : parameters.weights())
    if (weight.trainable())
      group_of_[static_cast<size_t>(weight.id())] =
          known.try_emplace(group_name(weight, options.style), known.size()).first->second;
  thresholds_ = std::max<size_t>(1, known.size());
}

// The bindings name every field, so that a new one doesn't compile before it is here.
std::string Clipper::settings() const {
  const auto& [style, norm_algorithm, tile_size, workspace, memory, norm_timing, gamma, quantile, rate, count_sigma] =
      options_;
  const Json out{{"groups", thresholds_},
                 {"style", to_string(style)},
                 {"norm_algorithm", to_string(norm_algorithm)},
                 {"tile_size", tile_size},
                 {"workspace", workspace.count},
                 {"memory", memory.count},
                 {"norm_timing", norm_timing},
                 {"gamma", gamma},
                 {"quantile", quantile},
                 {"rate", rate},
                 {"count_sigma", count_sigma}};
  return out.dump();
}

double clip_margin(int64_t weights) { return 1e-9 + std::sqrt(static_cast<double>(weights)) * 0x1p-33; }

at::Tensor Clipper::coefficients(const at::Tensor& squares_B) const {
  const double threshold = norm_ / std::sqrt(static_cast<double>(thresholds_)) * (1 - margin_);
  const auto norms_B = squares_B.clamp_min(0).sqrt_();
  const auto c_B = options_.style == ClipStyle::automatic ? (norms_B + options_.gamma).reciprocal_().mul_(threshold)
                                                          : norms_B.reciprocal().mul_(threshold).clamp_max_(1);
  return c_B.masked_fill_((squares_B.abs() <= kLargestNorm * kLargestNorm).logical_not_(), 0);  // and not a number
}

double Clipper::gradient_sigma() const {
  if (!adaptive() || sigma_ == 0) return sigma_;
  return 1 / std::sqrt(1 / (sigma_ * sigma_) - 1 / (4 * options_.count_sigma * options_.count_sigma));
}

void Clipper::follow(double noisy_count, double divisor) {
  const double share = noisy_count / divisor + 0.5;
  const double next = norm_ * std::exp(-options_.rate * (share - options_.quantile));
  norm_ = std::min(kLargestNorm, std::max(kSmallestNorm, next));
}

void Clipper::continue_at(double clip_norm) {
  SHADE_REQUIRE(adaptive() ? clip_norm >= kSmallestNorm && clip_norm <= kLargestNorm : clip_norm == norm_, "clip norm ",
                clip_norm, " of an earlier process; expected ",
                adaptive() ? text(kSmallestNorm, " to ", kLargestNorm) : std::to_string(norm_));
  norm_ = clip_norm;
}

}  // namespace shade::privacy
