// The privacy loss itself, composed numerically: the tightest accountant here, and an upper bound (each step's losses
// are rounded pessimistically, and what the transform may have lost is added). Both directions are computed; the worse
// counts. With very many steps of very different losses (a billion at a rate of 1e-3) the grid of one step can be so
// coarse that the sum leaves its window: then epsilon is infinite, and `spent` (accountant.h) answers by Renyi's bound.
// cost: 10-300 ms.
#pragma once

#include <span>
#include <vector>

#include "shade/accounting/cumulants.h"
#include "shade/accounting/event.h"

namespace shade::privacy {

double prv_epsilon(std::span<const Steps> steps, double delta);
double prv_delta(std::span<const Steps> steps, double epsilon);

struct Precision {
  double tolerance;  // relative, of epsilon: what the grid aims at
  double points;     // at most, of one step's grid; the window has at most twice as many
};
constexpr Precision kFine{.tolerance = 3e-5, .points = 1 << 19}, kCoarse{.tolerance = 1e-2, .points = 1 << 15};

// One direction, or a run of other pairs of Gaussian mixtures. An upper bound at any precision; a coarse one is cheap.
double prv_epsilon(const std::vector<RepeatedPairs>& run, double delta, const Precision& precision = kFine);
double prv_delta(const std::vector<RepeatedPairs>& run, double epsilon, const Precision& precision = kFine);

std::vector<RepeatedPairs> run_pairs(std::span<const Steps> steps, Direction direction);

}  // namespace shade::privacy
