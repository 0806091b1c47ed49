// Renyi differential privacy (Mironov 2017; Mironov, Talwar, Zhang 2019) of sampled Gaussian steps. An upper bound for
// both directions: with the record against without it is the larger one at every order.
// cost: orders x moment.h's, under a millisecond an order.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "shade/privacy/event.h"

namespace shade::privacy {

std::vector<double> default_orders();  // 1.01 to 1024

double renyi(const Mechanism& mechanism, double order);  // one step's divergence of that order

struct RdpEpsilon {
  double epsilon = 0;
  double order = 0;          // the one that gave it
  bool at_grid_end = false;  // another order, beyond the grid, may give less
};

// From a curve of divergences: min over orders of r + log(1 - 1/a) - (log delta + log a) / (a - 1) (Canonne, Kamath,
// Steinke 2020), at least 0.
RdpEpsilon rdp_to_epsilon(std::span<const double> orders, std::span<const double> divergences, double delta);

RdpEpsilon rdp_epsilon(std::span<const Steps> steps, double delta, std::span<const double> orders = {});

}  // namespace shade::privacy
