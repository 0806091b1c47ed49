#include "shade/privacy/config.h"

namespace shade::privacy {

std::optional<PrivacyEvent> DpConfig::event(double divisor) const {
  if (!is_private()) return std::nullopt;
  return PrivacyEvent{.mechanism = {.noise_multiplier = sigma}, .clip_norm = max_grad_norm, .divisor = divisor};
}

std::optional<uint64_t> DpConfig::seed() const {
  return noise_seed < 0 ? std::nullopt : std::optional(static_cast<uint64_t>(noise_seed));
}

}  // namespace shade::privacy
