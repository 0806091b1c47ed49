// DP-AdamBC (Tang, Shpilevskiy, Lécuyer, AAAI 2024): AdamW for private runs.
//
// The noise of a private step adds its variance phi = (sigma C / divisor)^2 to the second moment of every element.
// Where gradients are small beside the noise, as most are, AdamW divides all of them by about sqrt(phi) and no longer
// adapts. Here phi is subtracted first:
//
//   w <- w - lr m / sqrt(max(v - phi, floor))          m, v: AdamW's moments, corrected for their start at 0
//
// In the paper `floor` is an absolute number (gamma'), which fits one clip norm and batch. Here it is a share of phi,
// and at least eps^2: a share of 0 is the paper's update with gamma' = eps^2. v - phi is known to phi sqrt(2 (1 -
// beta2) / (1 + beta2)), 0.032 phi for a beta2 of 0.999: what is below that is noise, and dividing by it would amplify
// noise.
//
// phi may change from step to step (adaptive clipping, a run that goes on with another sigma): what is subtracted is
// its average with the weights that v has.
#pragma once

#include <memory>

#include "shade/optim/adamw.h"

namespace shade::optim {

inline constexpr double kNoiseFloor = 0.03;  // of phi

// State: exp_avg, exp_avg_sq, as AdamW's.
std::unique_ptr<Optimizer> make_adambc(const AdamWOptions& options, double noise_floor = kNoiseFloor);

}  // namespace shade::optim
