// One step's privacy loss on a grid, pessimistically.
//
// x is cut into panels. A panel's mass under p and under q moves to the losses at the panel's two ends, and from there
// to the two grid points around each, in the one proportion that keeps both masses. That spreads the likelihood ratio
// and keeps its mean, so the pair on the grid is at least as easy to tell apart as the true one, at every epsilon and
// after any composition (the idea of Doroshenko et al. 2022, "connect the dots", without its cancellation: every mass
// here is a sum of positive terms). The error is of second order in the grid's step. Mass below the lowest x is moved
// up to it; mass above the highest x becomes an infinite loss.
// cost: about 2 x (range of the loss) / step panels, four points each, 0.3 us a panel.
#pragma once

#include <cstdint>
#include <vector>

#include "shade/privacy/accounting/gaussian_pair.h"

namespace shade::privacy {

struct LossPmf {
  double step = 0;           // losses are multiples of it
  int64_t first = 0;         // mass[i] sits at loss (first + i) * step
  std::vector<double> mass;  // under p
  double infinite = 0;       // mass of an infinite loss
};

LossPmf discretise(const StepPairs& pairs, double step, double z);  // x to z widths beyond the shifts

}  // namespace shade::privacy
