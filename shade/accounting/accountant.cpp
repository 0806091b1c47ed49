#include "shade/accounting/accountant.h"

#include <cmath>

#include "shade/accounting/gaussian_pair.h"
#include "shade/accounting/prv.h"
#include "shade/accounting/rdp.h"
#include "shade/base/error.h"

namespace shade::privacy {

Spent spent(Accountant accountant, std::span<const Steps> steps, double delta) {
  Spent out{.delta = delta, .accountant = accountant};
  switch (accountant) {
    case Accountant::prv: {
      // Both are upper bounds. The grid's is the smaller one unless it is too coarse for so many steps.
      out.epsilon = prv_epsilon(steps, delta);
      const auto renyi = rdp_epsilon(steps, delta);
      if (out.epsilon <= renyi.epsilon) break;
      out.accountant = Accountant::rdp;
      out.epsilon = renyi.epsilon;
      out.order = renyi.order;
      out.warning = "the bound of rdp, which is smaller here: so many steps need a finer grid than prv has";
      break;
    }
    case Accountant::rdp: {
      const auto found = rdp_epsilon(steps, delta);
      out.epsilon = found.epsilon;
      out.order = found.order;
      if (found.at_grid_end)
        out.warning = text("the best order, ", found.order, ", is at the end of the grid: prv will give less");
      break;
    }
    case Accountant::gdp:
      out.epsilon = gdp_epsilon(steps, delta);
      out.upper_bound = false;
      out.warning = "a central limit, not a bound: it under-reports";
      break;
  }
  return out;
}

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
