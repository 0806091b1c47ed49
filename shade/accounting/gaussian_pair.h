// Two mixtures of Gaussians of one width, and the privacy loss between them: L(x) = log p(x) / q(x).
//
// p's shifts are >= 0 and q's are <= 0, so L grows with x. A Poisson branch with the record against without it is
// p = {0: 1 - q, 1: q}, q = {0: 1}; the other direction, mirrored in x, is p = {0: 1}, q = {0: 1 - q, -1: q}.
#pragma once

#include <vector>

#include "shade/accounting/branch.h"

namespace shade::privacy {

struct Component {
  double shift;
  double probability;
};

enum class Direction { remove, add };  // the data set loses the record, or gains it

class GaussianPair {
 public:
  GaussianPair(double sigma, std::vector<Component> p, std::vector<Component> q);
  static GaussianPair of(const Branch& branch, double sigma, Direction direction);

  struct Point {
    double density;  // p(x)
    double loss;     // L(x)
    double slope;    // L'(x)
  };
  Point at(double x) const;
  double loss(double x) const;

  double sigma() const { return sigma_; }
  double mass_above(double x) const;  // of p
  double mass_below(double x) const;
  double lowest(double z) const;   // z widths below p's lowest shift
  double highest(double z) const;  // z widths above its highest

 private:
  double sigma_, scale_;  // scale: log of the density's constant
  std::vector<Component> p_, q_;
};

// A step as its accountant meets it: branches with public probabilities (branch.h).
struct WeightedPair {
  double probability;
  GaussianPair pair;
};
using StepPairs = std::vector<WeightedPair>;
StepPairs step_pairs(const Mechanism& mechanism, Direction direction);

// The normal distribution far into its tails, and the privacy of the Gaussian mechanism without sampling.
double log_normal_tail(double z);       // log of the probability to exceed z
double normal_tail_point(double mass);  // a z beyond which there is no more than `mass`; mass < 1/2

// The exact curve of N(mu, 1) against N(0, 1) (Balle and Wang 2018). k steps of the Gaussian mechanism without sampling
// have mu = sqrt(k) / sigma.
double gaussian_delta(double epsilon, double mu);
double gaussian_epsilon(double delta, double mu);

}  // namespace shade::privacy
