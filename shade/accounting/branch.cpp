#include "shade/accounting/branch.h"

#include <algorithm>
#include <cmath>

#include "shade/base/error.h"

namespace shade::privacy {

double binomial_tail(int64_t trials, double rate, int64_t least) {
  if (least <= 0) return 1;
  if (least > trials) return 0;
  if (rate >= 1) return 1;
  const auto n = static_cast<double>(trials), k = static_cast<double>(least);
  if (k <= n * rate) return 1;  // below the mean: cutting is the rule, and 1 is near enough and above
  const double log_first = std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) + k * std::log(rate) +
                           (n - k) * std::log1p(-rate);
  // Beyond the mean each term is smaller than the one before, by a ratio that falls: a geometric series ends the sum.
  double sum = 1, term = 1;
  for (double i = k; i < n; ++i) {
    const double ratio = (n - i) / (i + 1) * rate / (1 - rate);
    term *= ratio;
    sum += term;
    if (ratio < 1 && term / (1 - ratio) < 1e-12 * sum) {
      sum += term / (1 - ratio);
      break;
    }
  }
  // lgamma of large numbers is right to their last digits only; what that can hide is added.
  const double doubt = 1e-15 * (std::lgamma(n + 1) + 1);
  return std::min(1.0, sum * std::exp(log_first + doubt));
}

std::vector<Branch> branches(const Mechanism& mechanism) {
  mechanism.require_valid();
  const double q = mechanism.sample_rate;
  switch (mechanism.sampler) {
    case Sampler::poisson: return {{1, q, 1}};
    case Sampler::truncated_poisson: {
      const double cut = binomial_tail(mechanism.population, q, mechanism.max_batch);
      if (cut <= 0) return {{1, q, 1}};
      if (cut >= 1) return {{1, q, 2}};
      return {{1 - cut, q, 1}, {cut, q, 2}};
    }
    case Sampler::shuffled: break;
  }
  throw UsageError(text("no epsilon for the ", to_string(mechanism.sampler),
                        " sampler: these accountants support poisson and truncated_poisson, and shuffling leaks ",
                        "more than Poisson sampling at the same rate; sample with poisson, or report no epsilon"));
}

}  // namespace shade::privacy
