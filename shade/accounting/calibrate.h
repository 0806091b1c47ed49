// The noise for a target: the smallest sigma found whose epsilon, by the same accountant, does not exceed it.
#pragma once

#include "shade/accounting/accountant.h"

namespace shade::privacy {

// A noise multiplier and the epsilon that it gives.
struct Calibration {
  double sigma = 0;  // from kMinNoise to kMaxNoise
  // At that sigma: epsilon at most the target, and within a relative 1e-4 of it where sigma's range allows.
  Spent spent;
};

// `mechanism.noise_multiplier` is what is looked for; its value is ignored. Throws UsageError if no sigma will do.
Calibration calibrate(Accountant accountant, const Steps& steps, double target_epsilon, double delta);

}  // namespace shade::privacy
