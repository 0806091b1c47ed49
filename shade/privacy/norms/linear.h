// Squared norms of each sample's gradient g^T a of a linear layer (P x D), by two algorithms.
//
//   gram          sum over t, s of (a_t . a_s)(g_t . g_s), in tiles     T^2 (P + D) products    2 tiles kept
//   instantiate   |g^T a|^2, in blocks of rows that fit the workspace   2 T P D products        a block kept
//
// On accelerators (nn/launches.h) a tile and a block are as large as the device's memory allows, of all samples at
// once, narrow factors are multiplied as they are, and no operator depends on values.
//
// Convolutions arrive unfolded (nn/patch), LoRA as two linear layers: both are this.
#pragma once

#include <ATen/core/Tensor.h>

#include "shade/base/units.h"

namespace shade::privacy {

// All return [B], fp64, and bound what clip/exact_sum.h makes of the same factors: those in bf16 are multiplied exactly
// and summed in fp32, nothing is rounded to bf16, and what rounding to fp32 can do is added (norms/rounding.h).
at::Tensor gram_squares(const at::Tensor& a_BTD, const at::Tensor& g_BTP, int64_t tile = 0);
at::Tensor instantiated_squares(const at::Tensor& a_BTD, const at::Tensor& g_BTP, Bytes workspace);

// The bias' gradient is the sum of g over positions, in fp64: its norm is not the norm of the parts.
at::Tensor bias_squares(const at::Tensor& g_BTP);

// Each sample's gradient itself, [B, P, D], in the type of `g`: kept, it is what is summed, rounded as it is.
at::Tensor sample_gradients(const at::Tensor& a_BTD, const at::Tensor& g_BTP);

// Positions of a tile: as wanted, or (0) about a quarter of the sample, so that most mirror images are saved; on
// accelerators as many as fit.
int64_t gram_tile(const at::Tensor& g_BTP, int64_t wanted);
// A block of a gradient made for its norm: as wanted, or (0) 4 MiB; on accelerators as much as a temporary may take.
Bytes norm_workspace(const at::Tensor& g_BTP, Bytes wanted);

// Floating-point operations of one sample, as the formulas above have them.
double gram_flops(int64_t positions, int64_t width_in, int64_t width_out, int64_t tile);
double instantiate_flops(int64_t positions, int64_t width_in, int64_t width_out);

}  // namespace shade::privacy
