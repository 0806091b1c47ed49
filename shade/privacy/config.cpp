#include "shade/privacy/config.h"

namespace shade::privacy {

void DpConfig::declare(Fields& f) {
  f.add("dp", dp, {.help = "how samples are clipped; none: not private", .flags = {"--dp"}});
  f.add("clip_style", clip_style, {.help = "over what a sample's norm is taken", .flags = {"--clip-style"}});
  f.add("norm_algorithm", norm_algorithm,
        {.help = "of linear layers; auto: the cheaper for each shape", .flags = {"--norm-algorithm"}});
  f.add("tile_size", tile_size,
        {.help = "of Gram matrices; 0: by the length", .unit = "positions", .min = 0, .flags = {"--tile-size"}});
  f.add("norm_workspace", norm_workspace, {.help = "a block of a gradient made for its norm"});
  f.add("dp_memory", dp_memory,
        {.help = "auto: what may be kept for the private step before leaner forms are chosen; 0: no limit",
         .flags = {"--dp-memory"}});
  f.add("norm_timing", norm_timing,
        {.help = "time both norm algorithms on a shape's first use and keep the faster; runs are no longer bit-equal",
         .flags = {"--norm-timing"}});
  f.add("sigma", sigma, {.help = "noise over sensitivity", .min = 0, .flags = {"--sigma"}});
  f.add("max_grad_norm", max_grad_norm,
        {.help = "largest norm of one sample's gradient (C); in shade train, if not private, of the whole gradient; "
                 "there 0: not clipped",
         .min = 0,
         .flags = {"--max-grad-norm"}});
  f.add("gamma", gamma, {.help = "of --clip-style automatic"});
  f.add("clip_quantile", clip_quantile, {.help = "adaptive: share of samples that stay below C"});
  f.add("clip_rate", clip_rate, {.help = "adaptive: how fast C follows"});
  f.add("count_sigma", count_sigma, {.help = "adaptive: noise on the count of samples below C", .unit = "samples"});
  f.add("noise_seed", noise_seed,
        {.help = "a seed instead of a secret key: repeatable, and therefore NOT private; -1: a key from the system",
         .flags = {"--noise-seed"}});
}

ClipOptions DpConfig::clip_options() const {
  return {.style = clip_style,
          .norm_algorithm = norm_algorithm,
          .tile_size = tile_size,
          .workspace = norm_workspace,
          .memory = dp_memory,
          .norm_timing = norm_timing,
          .gamma = gamma,
          .quantile = clip_quantile,
          .rate = clip_rate,
          .count_sigma = count_sigma};
}

std::optional<PrivacyEvent> DpConfig::event(double divisor) const {
  if (!is_private()) return std::nullopt;
  return PrivacyEvent{.mechanism = {.noise_multiplier = sigma}, .clip_norm = max_grad_norm, .divisor = divisor};
}

std::optional<uint64_t> DpConfig::seed() const {
  return noise_seed < 0 ? std::nullopt : std::optional(static_cast<uint64_t>(noise_seed));
}

}  // namespace shade::privacy
