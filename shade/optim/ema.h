// An exponential moving average of the weights, as the published DiT is evaluated with:
//
//   average <- decay average + (1 - decay) weight      after every update; it begins as the first weights
//
// A state of the optimizer (optim/optimizer.h), so it is sharded, offloaded and saved like the others; always in fp32,
// since at a decay of 0.9999 a step is below what bf16 resolves. It is a function of weights that are released anyway:
// in a private run it costs no epsilon.
#pragma once

#include <ATen/core/Tensor.h>

namespace shade::optim {

inline constexpr const char* kAverage = "ema";  // the name of the state; in checkpoints

// Element by element, so that the result doesn't depend on where a shard was cut. Both flat, fp32, on one device.
void follow(const at::Tensor& average, const at::Tensor& master, double decay);

// Exchanges their contents, to the bit.
void exchange(const at::Tensor& a, const at::Tensor& b);

}  // namespace shade::optim
