#include "shade/privacy/clip/clipper.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "shade/base/error.h"

namespace shade::privacy {
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
Json Clipper::settings() const {
  const auto& [style, norm_algorithm, tile_size, workspace, memory, norm_timing, gamma, quantile, rate, count_sigma] =
      options_;
  return {{"groups", thresholds_},
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
