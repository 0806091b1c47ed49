// What the ranks add up in every step, in one small message.
#pragma once

#include "shade/comm/group.h"

namespace shade::train {

// Of this rank; after reduce() of all of them. Doubles alone: they travel as an array.
struct StepSums {
  double loss = 0, losses = 0;  // the sum of losses, and what it is a sum of: samples or tokens
  double samples = 0;
  double tokens = 0, squared_tokens = 0;        // without padding; the second sample by sample
  double positions = 0, squared_positions = 0;  // the same with padding and blank samples
  double squared_norm = 0;                      // of gradient elements that this rank owns alone
  double clipped = 0, not_finite = 0;
  double below = 0;           // privacy::ClipCounts::below
  double stop = 0, save = 0;  // how many ranks asked for it

  void reduce(const comm::Group& control);
};

}  // namespace shade::train
