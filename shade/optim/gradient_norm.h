// The norm of the whole gradient, for clipping in runs that are not private.
#pragma once

#include <span>

#include "shade/optim/optimizer.h"

namespace shade::optim {

// Sum of squares over this rank's shards, a number in fp64 where they are, not yet read by the host; the caller adds up
// the ranks. 0 of meta tensors.
at::Tensor squared_norm(std::span<const Slot> slots);

// min(1, limit / norm). `norm` is that of the gradient as it will be applied, so already divided. Throws on a norm that
// is not finite: no factor mends such a gradient.
double clip_factor(double norm, double limit);

}  // namespace shade::optim
