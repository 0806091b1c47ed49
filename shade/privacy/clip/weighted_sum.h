// The clipped sum of gradients that are kept sample by sample.
#pragma once

#include <ATen/core/Tensor.h>

namespace shade::privacy {

// What a micro-batch's samples weigh.
struct SampleWeights {
  at::Tensor c_B;         // coefficients, in the type that is summed in
  at::Tensor left_out_B;  // samples whose coefficient is 0; undefined: none is known to be
};
// On a CPU it is asked whether a sample is left out at all; on accelerators that would wait for the device.
SampleWeights sample_weights(const at::Tensor& c_B, at::ScalarType type);

// into [N] = (or, if it `adds`, +=) the sum over b of c_b g_b, gradients [B, N], multiplied and summed in the type of
// `into`. Samples that are left out count as zeros, whatever they hold: 0 times infinity is no 0.
//
// Narrow gradients are widened in blocks of columns: 2^16 on a CPU, as many as nn::largest_block() holds elsewhere.
void put_weighted_sum(at::Tensor into_N, const at::Tensor& gradients_BN, const SampleWeights& weights, bool adds);

}  // namespace shade::privacy
