// What a user says about privacy.
#pragma once

#include "shade/base/config.h"
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
  int64_t memory_samples = 0;  // what dp_memory is reckoned with; 0: the samples of a micro-batch. No field.

  void declare(Fields& fields);
  bool is_private() const { return dp != MethodName::none; }
};

}  // namespace shade::privacy
