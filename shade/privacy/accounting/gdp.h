// Gaussian differential privacy by the central limit theorem (Dong, Roth, Su 2019). A DIAGNOSTIC: it is a limit, not a
// bound, and under-reports (3.72 where 5.80 is exact). Nothing may be promised on it.
#pragma once

#include <span>

#include "shade/privacy/event.h"

namespace shade::privacy {

double gdp_mu(std::span<const Steps> steps);  // sqrt(sum of count q^2 (exp(1 / sigma^2) - 1)); Poisson sampling only
double gdp_epsilon(std::span<const Steps> steps, double delta);

}  // namespace shade::privacy
