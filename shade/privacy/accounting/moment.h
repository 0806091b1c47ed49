// The moment that Renyi privacy of the Poisson-sampled Gaussian is made of.
//
//   A(alpha) = E_{x ~ N(0, sigma^2)} (1 + u(x))^alpha,   u(x) = q (exp((2x - 1) / (2 sigma^2)) - 1),   E u = 0
//
// Both ways compute A - 1 as a sum of non-negative terms, so that a moment of 1 + 1e-11 keeps its digits:
//   integer alpha      sum over k >= 2 of C(alpha, k) q^k (1 - q)^(alpha - k) (exp(k (k - 1) / (2 sigma^2)) - 1)
//   fractional alpha   integral of ((1 + u)^alpha - 1 - alpha u) by the trapezoidal rule, which converges
//                      exponentially for a function that is analytic in a strip around the real line
// cost: alpha terms, or (alpha + 20 sigma) / min(sigma / 4, sigma^2 / 3) points.
#pragma once

namespace shade::privacy {

double log_excess(double q, double sigma, double alpha);                // log(A(alpha) - 1), alpha > 1
double log_excess_by_quadrature(double q, double sigma, double alpha);  // the same for any alpha > 1, q < 1

}  // namespace shade::privacy
