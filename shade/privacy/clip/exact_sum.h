// The clipped sum, without a rounding that one sample could change for another.
//
// Each sample's clipped gradient c_b g_b is made by itself, rounded to multiples of a spacing h that follows from the
// clip norm alone, and added in fp64, which is exact for up to kMostSummed of them: |c_b g_b| <= C < 2^34 h, so a sum
// of 2^19 has less than 53 bits above h. So the sum is the same whatever the order, the micro-batches and the ranks,
// and one sample more moves it by its own rounded term: by at most |c_b g_b| + h sqrt(P), since a weight gets at most
// two terms of a sample (a tied table), each rounded by h / 2 (docs/privacy.md, "What one record can do").
//
// Of a tied table the two terms may be longer than their sum: each up to kHeaviestTerm C (norms/embedding.h). Until the
// second is added, a sample of the micro-batch counts as so many.
#pragma once

#include "shade/nn/gradients.h"
#include "shade/privacy/clip/layer.h"

namespace shade::privacy {

inline constexpr int64_t kMostSummed = int64_t{1} << 19;  // samples in one step

// A power of two in (2^-34 C, 2^-33 C].
double sum_spacing(double clip_norm);

// What a micro-batch's samples weigh.
struct SampleWeights {
  at::Tensor c_B;  // fp64. A sample of 0 is left out, whatever it holds: 0 times infinity is no 0
  double spacing;
};

// To [N], fp64, the terms of gradients [B, N]; written, not added, unless it `adds`.
void add_terms_of(const at::Tensor& into_N, const at::Tensor& gradients_BN, const SampleWeights& weights, bool adds);

// To the sink's buffers, which must be fp64.
void add_clipped(const nn::LayerGrad& grad, const SampleWeights& weights, nn::GradientSink& sink);
void add_clipped(const SampleGradients& grad, const SampleWeights& weights, nn::GradientSink& sink);

}  // namespace shade::privacy
