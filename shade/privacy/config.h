// What a user says about privacy.
#pragma once

#include <optional>

#include "shade/accounting/event.h"
#include "shade/base/config.h"
#include "shade/base/effect.h"
#include "shade/base/units.h"
#include "shade/catalog/methods.h"

namespace shade::privacy {

using catalog::MethodName;  // what each does: the rows of clip/method.cpp

// flat: one norm over all weights. per_layer, group: a threshold each, C / sqrt(number), over modules or units.
// automatic: C / (norm + gamma). adaptive: flat, and C follows a quantile of the norms, privately.
enum class ClipStyle { flat, per_layer, group, automatic, adaptive };
inline std::span<const Name<ClipStyle>> names_of(ClipStyle) {
  static constexpr Name<ClipStyle> kNames[] = {{"flat", ClipStyle::flat},
                                               {"per_layer", ClipStyle::per_layer},
                                               {"group", ClipStyle::group},
                                               {"automatic", ClipStyle::automatic},
                                               {"adaptive", ClipStyle::adaptive}};
  return kNames;
}

// norms/linear.h
enum class NormAlgorithm { automatic, instantiate, gram };
inline std::span<const Name<NormAlgorithm>> names_of(NormAlgorithm) {
  static constexpr Name<NormAlgorithm> kNames[] = {
      {"auto", NormAlgorithm::automatic}, {"input_length", NormAlgorithm::instantiate}, {"width", NormAlgorithm::gram}};
  return kNames;
}

// How samples are clipped: all but the clip norm and sigma, which are the privacy event's (accounting/event.h).
struct ClipOptions {
  ClipStyle style = ClipStyle::flat;
  NormAlgorithm norm_algorithm = NormAlgorithm::automatic;  // automatic: the method's
  int64_t tile_size = 0;                                    // of Gram matrices; 0: chosen from the sequence length
  Bytes workspace{0};                                       // a block of a gradient made for its norm; 0: set by device
  Bytes memory{0};                                          // `auto`: what may be kept; 0: no limit
  bool norm_timing = false;                                 // chosen by measured time: steps are not bit-equal
  double gamma = 0.01;                                      // automatic style
  double quantile = 0.5, rate = 0.2, count_sigma = 10;      // adaptive style
};

// The words of command lines and recipes. A step takes the event, the options and the method that they mean.
struct DpConfig {
  MethodName dp = MethodName::none;
  ClipOptions clip{};
  double sigma = 1;
  double max_grad_norm = 1;
  int64_t noise_seed = -1;

  void declare(Fields& f) {
    f.add("dp", dp,
          {.help =
               "method of per-sample gradient clipping; none: not private; auto: the cheapest for each layer and shape",
           .flags = {"--dp", "--mode", "--experiment"},
           .common = true});
    f.add("clip_style", clip.style,
          {.help = "scope of the clipped norm; flat: all weights; per_layer, group: each module or unit with its own "
                   "threshold; automatic: division by the norm; adaptive: flat, with a threshold that follows a "
                   "quantile of the norms",
           .flags = {"--clip-style"},
           .needs = {{"dp.dp"}}});
    f.add("norm_algorithm", clip.norm_algorithm,
          {.help = "norm algorithm of linear layers; input_length: gradients in blocks; width: Gram matrices; auto: "
                   "the cheaper one for each shape",
           .flags = {"--norm-algorithm"},
           .needs = {{"dp.dp"}}});
    f.add("tile_size", clip.tile_size,
          {.help = "tile size for Gram matrices; 0: chosen from the sequence length",
           .unit = "positions",
           .min = 0,
           .flags = {"--tile-size"},
           .needs = {{"dp.dp"}, {"dp.norm_algorithm", {"auto", "width"}}}});
    f.add("norm_workspace", clip.workspace,
          {.help = "largest block of a gradient that is computed for its norm; 0: 4 MiB on a CPU, 1/64 of an "
                   "accelerator's memory",
           .needs = {{"dp.dp"}}});
    f.add("dp_memory", clip.memory,
          {.help = "memory that --dp auto may keep for the private step before it chooses leaner forms, e.g. 1GiB; 0: "
                   "no limit",
           .flags = {"--dp-memory"},
           .needs = {{"dp.dp", {"auto"}}}});
    f.add("norm_timing", clip.norm_timing,
          {.help = "whether both norm algorithms are timed on a shape's first use and the faster is kept; runs are "
                   "then not bit-reproducible",
           .flags = {"--norm-timing"},
           .needs = {{"dp.dp"}, {"dp.norm_algorithm", {"auto"}}}});
    f.add("sigma", sigma,
          {.help = "noise multiplier: standard deviation of the noise divided by the sensitivity",
           .min = 0,
           .flags = {"--sigma", "--noise-multiplier"},
           .needs = {{"dp.dp"}}});
    f.add("max_grad_norm", max_grad_norm,
          {.help = "clipping threshold C of each sample's gradient norm; in shade train without privacy, that of the "
                   "whole gradient, where 0 means no clipping",
           .min = 0,
           .flags = {"--max-grad-norm"},
           .common = true,
           .needs = {{kStepKind, {kPrivateStep}}}});
    f.add("gamma", clip.gamma,
          {.help = "stability constant of --clip-style automatic, added to the norm",
           .needs = {{"dp.clip_style", {"automatic"}}}});
    f.add("clip_quantile", clip.quantile,
          {.help = "fraction of samples whose norm stays below the threshold under --clip-style adaptive",
           .needs = {{"dp.clip_style", {"adaptive"}}}});
    f.add("clip_rate", clip.rate,
          {.help = "learning rate of the threshold under --clip-style adaptive",
           .needs = {{"dp.clip_style", {"adaptive"}}}});
    f.add("count_sigma", clip.count_sigma,
          {.help = "standard deviation of the noise on the number of samples below the threshold, under --clip-style "
                   "adaptive",
           .unit = "samples",
           .needs = {{"dp.clip_style", {"adaptive"}}}});
    f.add("noise_seed", noise_seed,
          {.help = "seed of the noise in place of a secret key: reproducible, and therefore NOT private; -1: a key "
                   "from the system",
           .flags = {"--noise-seed"},
           .needs = {{"dp.dp"}}});
  }
  bool is_private() const { return dp != MethodName::none; }
  // Sigma and clip norm, for steps that are measured or checked; nothing is said of sampling. None: not private.
  std::optional<PrivacyEvent> event(double divisor = 1) const;
  std::optional<uint64_t> seed() const;  // of the noise, if it is repeatable
};

}  // namespace shade::privacy
