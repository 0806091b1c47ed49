// Where the sum of many privacy losses lives: K(t) = log E e^(tL) of a run, from a few hundred points of each step.
//
// It chooses the grid and the tilt of the exact computation (prv.h) and decides nothing else: a bad choice
// would cost tightness or time, never soundness.
#pragma once

#include <cstdint>
#include <vector>

#include "shade/accounting/gaussian_pair.h"

namespace shade::privacy {

struct RepeatedPairs {
  StepPairs step;
  int64_t count;
};

// delta(e) <= e^(K(t) - t e) * the largest of (1 - e^-v) e^(-t v) over v > 0, and this is its logarithm.
double log_saving(double t);

class Cumulants {
 public:
  // x to z widths beyond the shifts. `points`: how many a step's grid may have; a tilt so large that the grid would
  // blur it is not looked at.
  Cumulants(const std::vector<RepeatedPairs>& run, double z, double points);

  double operator()(double t) const;     // K(t) of the whole run
  double deviation(double t) const;      // of the run's loss under the tilt t
  double span() const { return span_; }  // the widest range of one step's loss

  struct Edge {
    double tilt;   // the t that gives it
    double value;  // a loss
  };
  // Chernoff: under the tilt `base` the loss passes `value`, upward or downward, with a probability of at most
  // e^-log_mass.
  Edge above(double base, double log_mass) const;
  Edge below(double base, double log_mass) const;
  // The same for delta in place of a probability, which is smaller by the factor e^log_saving(t): an epsilon for a
  // delta, and the tilt at which an epsilon's delta is seen best.
  Edge epsilon(double delta) const;
  double tilt_for(double epsilon) const;

 private:
  struct Atom {
    double log_mass, loss;
  };
  struct Kind {
    std::vector<Atom> atoms;
    double count;
  };
  double search(const auto& objective) const;  // the t > 0 that makes it smallest

  std::vector<Kind> kinds_;
  double span_ = 1e-12;
  double largest_tilt_ = 0;
};

}  // namespace shade::privacy
