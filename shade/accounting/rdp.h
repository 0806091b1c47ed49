// Renyi differential privacy (Mironov 2017; Mironov, Talwar, Zhang 2019) of sampled Gaussian steps. An upper bound for
// both directions: with the record against without it is the larger one at every order.
// cost: orders x a moment's, under a millisecond an order.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "shade/accounting/event.h"

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

// The moment that Renyi privacy of the Poisson-sampled Gaussian is made of.
//
//   A(alpha) = E_{x ~ N(0, sigma^2)} (1 + u(x))^alpha,   u(x) = q (exp((2x - 1) / (2 sigma^2)) - 1),   E u = 0
//
// Both ways compute A - 1 as a sum of non-negative terms, so that a moment of 1 + 1e-11 keeps its digits:
//   integer alpha      sum over k >= 2 of C(alpha, k) q^k (1 - q)^(alpha - k) (exp(k (k - 1) / (2 sigma^2)) - 1)
//   fractional alpha   integral of ((1 + u)^alpha - 1 - alpha u) by the trapezoidal rule, which converges
//                      exponentially for a function that is analytic in a strip around the real line
// cost: alpha terms, or (alpha + 20 sigma) / min(sigma / 4, sigma^2 / 3) points.
double log_excess(double q, double sigma, double alpha);                // log(A(alpha) - 1), alpha > 1
double log_excess_by_quadrature(double q, double sigma, double alpha);  // the same for any alpha > 1, q < 1

}  // namespace shade::privacy
