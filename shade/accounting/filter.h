// A cap on what may be spent in all, valid although every step is chosen after the results of the steps before it: a
// Renyi filter (Feldman and Zrnic 2021).
//
// Composition theorems for (epsilon, delta) or for a whole Renyi curve are about steps that were planned. A sweep looks
// at results and chooses the next run's noise, rate and length by them, so the sum itself is random. For one order a
// the sum of the steps' divergences r(a) may still be used: exp((a - 1) (loss so far - sum of r(a) so far)) is a
// supermartingale, however the steps are chosen, so a run that stops before the sum passes b is (a, b)-Renyi private.
//
// Several orders. Which order still has room at the end depends on the results, and for a chosen order the theorem
// doesn't hold. So each order a has a share w(a) of delta, the shares add up to 1, and its room b(a) is what converts
// to epsilon at w(a) delta. A step is allowed while some order has room for it. Then
//   delta(epsilon) <= sum over a of E[loss beyond epsilon where a is the order with room]
//                  <= sum over a of w(a) delta E[supermartingale of a] <= delta.
// Orders and shares are fixed before the first step, by the cap and the first run's mechanism: 0.8 of delta go to
// the order that allows most steps of it, the rest to orders around it for runs of other kinds. The price is 0.22 / (a
// - 1) of epsilon.
#pragma once

#include <vector>

#include "shade/accounting/event.h"

namespace shade::privacy {

struct Cap {
  double epsilon = 0;
  double delta = 0;

  void require_valid() const;  // throws UsageError
  bool operator==(const Cap&) const = default;
};

struct FilterOrder {
  double order = 0;
  double share = 0;  // of delta

  bool operator==(const FilterOrder&) const = default;
};

// For a data set whose first run does this. Throws UsageError for a sampler that no accountant supports.
std::vector<FilterOrder> filter_orders(const Cap& cap, const Mechanism& first);

class RenyiFilter {
 public:
  // Throws UsageError if the orders are none, or their shares more than 1 in all.
  RenyiFilter(const Cap& cap, std::vector<FilterOrder> orders);

  void take(const Steps& steps);                                      // spent, whether there was room or not
  int64_t allowed(const Mechanism& mechanism, int64_t wanted) const;  // the most steps up to `wanted` that have room

  // The epsilon at which the filter would stop now. At most the cap's while nothing was taken without room. It is where
  // the filter stands, not a guarantee in itself: that is the cap.
  double position() const;

 private:
  Cap cap_;
  std::vector<FilterOrder> orders_;
  std::vector<double> spent_;
};

}  // namespace shade::privacy
