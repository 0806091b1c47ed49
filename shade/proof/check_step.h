// A whole private step against its definition, from the data set to the updated weights.
//
// proof/check_gradients.h passes micro-batches to a step. Here the step draws its own: Poisson sampling, dealing to
// ranks, micro-batches of several lengths, padding, users with all records, accumulation, the noise and the public
// divisor. The definition has none of that: each drawn record alone, without padding, clipped, summed, noised once and
// divided. Plain SGD with a rate of 1 shows the result as the difference of the weights.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "shade/comm/world.h"
#include "shade/proof/check_gradients.h"
#include "shade/shard/runtime.h"

namespace shade::proof {

struct StepCheck {
  std::string label;
  std::function<std::unique_ptr<models::Model>()> make_model;  // a classifier of texts
  CheckedMethod method;
  privacy::ClipOptions clip{};  // as the method clips
  nn::DType dtype = nn::DType::fp32;
  bool users = false;  // a user with all records is a sample
  uint64_t seed = 1;
};

// Collective. `max_rel_grad` is of the noised sum; `max_rel_norm` is infinite if other samples were counted than drawn.
VerifyRow check_step(comm::World& world, const StepCheck& check, shard::Strategy strategy, const shard::Groups& groups);

}  // namespace shade::proof
