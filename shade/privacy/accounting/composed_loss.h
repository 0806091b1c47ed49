// The privacy loss of a whole run: the sum of its steps' losses, by FFT.
//
// Each step's masses are tilted (times e^(t loss), scaled to 1) before the transform and the result is tilted
// back. The tilted sum is centred where epsilon is, so rounding and the wrap-around of a circular convolution are small
// against delta itself, not merely against 1. What remains is added to delta:
//   e^(K + log_saving(t) - t epsilon) (the tilted sum's mass above the window, by Chernoff, + rounding of the
//   transforms)
//   + the infinite losses, and a relative 1e-13 a step for the rounding of the masses.
// Mass below the window wraps to its top, which can only add.
// cost: one FFT of the window for each kind of step and one back; window: 24 deviations of the sum / step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shade/privacy/accounting/loss_pmf.h"

namespace shade::privacy {

struct RepeatedLoss {
  LossPmf pmf;
  int64_t count;
};

struct Window {
  double tilt;        // t > 0
  double above_tilt;  // t + above_tilt is a second tilt, which bounds what lies above the window
  double low, high;   // losses
};

// All pmfs on one grid.
class ComposedLoss {
 public:
  ComposedLoss(std::span<const RepeatedLoss> run, const Window& window);

  // Upper bounds. Below the window's lowest loss nothing is known: epsilon() returns at least that, delta() wants more.
  double delta(double epsilon) const;
  double epsilon(double delta) const;
  double lowest() const { return static_cast<double>(first_) * step_; }

 private:
  double rest(double epsilon) const;  // what is added to the sum over the window

  double step_, tilt_;
  int64_t first_;
  std::vector<double> mass_;  // of loss (first_ + i) step_
  double infinite_ = 0, inflation_ = 1, log_rest_;
};

}  // namespace shade::privacy
