// The accountants by name: what a run has spent.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "shade/accounting/event.h"
#include "shade/base/names.h"

namespace shade::privacy {

// prv: privacy loss distributions (accounting/prv.h). rdp: Renyi divergence. gdp: a central limit, not a bound.
enum class Accountant { prv, rdp, gdp };
inline std::span<const Name<Accountant>> names_of(Accountant) {
  static constexpr Name<Accountant> kNames[] = {
      {"prv", Accountant::prv}, {"rdp", Accountant::rdp}, {"gdp", Accountant::gdp}};
  return kNames;
}

// An epsilon and how it was computed.
struct Spent {
  double epsilon = 0;                       // at `delta`
  double delta = 0;                         // as passed to spent()
  Accountant accountant = Accountant::prv;  // rdp instead of prv if the bound of rdp is smaller
  bool upper_bound = true;                  // false: a diagnostic, nothing may be promised on it
  std::optional<double> order;              // rdp: the order that gave it
  std::string warning;                      // empty, or what to know about this figure
};

// Epsilon of all steps together. Throws UsageError for values out of range or a sampler that it doesn't support.
Spent spent(Accountant accountant, std::span<const Steps> steps, double delta);

// Gaussian differential privacy by the central limit theorem (Dong, Roth, Su 2019). A DIAGNOSTIC: it is a limit, not a
// bound, and under-reports (3.72 where 5.80 is exact). Nothing may be promised on it.
double gdp_mu(std::span<const Steps> steps);  // sqrt(sum of count q^2 (exp(1 / sigma^2) - 1)); Poisson sampling only
// Epsilon of gdp_mu() at `delta`; 0 if there are no steps.
double gdp_epsilon(std::span<const Steps> steps, double delta);

}  // namespace shade::privacy
