// What a user says about privacy.
#pragma once

#include <optional>

#include "shade/base/config.h"
#include "shade/base/units.h"
#include "shade/privacy/event.h"

namespace shade::privacy {

// Rows of the table in clip/method.cpp.
enum class MethodName { none, materialize, ghost, flash, bookkeeping, flash_bookkeeping, streaming, automatic };
inline std::span<const Name<MethodName>> names_of(MethodName) {
  static constexpr Name<MethodName> kNames[] = {{"none", MethodName::none},
                                                {"materialize", MethodName::materialize},
                                                {"ghost", MethodName::ghost},
                                                {"flash", MethodName::flash},
                                                {"bookkeeping", MethodName::bookkeeping},
                                                {"flash_bookkeeping", MethodName::flash_bookkeeping},
                                                {"streaming", MethodName::streaming},
                                                {"auto", MethodName::automatic},
                                                {"no_dp", MethodName::none},
                                                {"vanilla", MethodName::none},
                                                {"flash_clip", MethodName::flash},
                                                {"flash_clip_bookkeeping", MethodName::flash_bookkeeping},
                                                {"ghost_fsdp", MethodName::ghost},
                                                {"flash_fsdp", MethodName::flash}};
  return kNames;
}

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

// How samples are clipped: all but the clip norm and sigma, which are the privacy event's (privacy/event.h).
struct ClipOptions {
  ClipStyle style = ClipStyle::flat;
  NormAlgorithm norm_algorithm = NormAlgorithm::automatic;  // automatic: the method's
  int64_t tile_size = 0;                                    // of Gram matrices; 0: chosen from the sequence length
  Bytes workspace = MiB(4);                                 // a block of a gradient made for its norm
  Bytes memory{0};                                          // `auto`: what may be kept; 0: no limit
  bool norm_timing = false;                                 // chosen by the clock: steps are not bit-equal
  double gamma = 0.01;                                      // automatic style
  double quantile = 0.5, rate = 0.2, count_sigma = 10;      // adaptive style
};

// The words of command lines and recipes. A step takes the event, the options and the method that they mean.
struct DpConfig {
  MethodName dp = MethodName::none;
  ClipStyle clip_style = ClipStyle::flat;
  NormAlgorithm norm_algorithm = NormAlgorithm::automatic;
  int64_t tile_size = 0;
  Bytes norm_workspace = MiB(4);
  Bytes dp_memory = Bytes{0};
  bool norm_timing = false;
  double sigma = 1;
  double max_grad_norm = 1;
  double gamma = 0.01;
  double clip_quantile = 0.5, clip_rate = 0.2, count_sigma = 10;
  int64_t noise_seed = -1;

  void declare(Fields& fields);
  bool is_private() const { return dp != MethodName::none; }
  ClipOptions clip_options() const;
  // Sigma and clip norm, for steps that are measured or checked; nothing is said of sampling. None: not private.
  std::optional<PrivacyEvent> event(double divisor = 1) const;
  std::optional<uint64_t> seed() const;  // of the noise, if it is repeatable
};

}  // namespace shade::privacy
