#include "shade/privacy/accounting/gdp.h"

#include <cmath>

#include "shade/base/error.h"
#include "shade/privacy/accounting/gaussian.h"

namespace shade::privacy {

double gdp_mu(std::span<const Steps> steps) {
  double squared = 0;
  for (const auto& [mechanism, count] : checked(steps)) {
    SHADE_REQUIRE(mechanism.sampler == Sampler::poisson, "gdp knows the poisson sampler only, found ",
                  to_string(mechanism.sampler), "; use prv or rdp");
    const double q = mechanism.sample_rate, sigma = mechanism.noise_multiplier;
    squared += static_cast<double>(count) * q * q * std::expm1(1 / (sigma * sigma));
  }
  return std::sqrt(squared);
}

double gdp_epsilon(std::span<const Steps> steps, double delta) {
  require_delta(delta);
  const double mu = gdp_mu(steps);
  return mu == 0 ? 0 : gaussian_epsilon(delta, mu);
}

}  // namespace shade::privacy
