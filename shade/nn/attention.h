// Softmax attention with grouped queries. No weights: projections are Linear layers around it.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "shade/base/names.h"

namespace shade::nn {

// flash: the fused kernel of the device, O(T) memory. standard: the T x T matrix, kept for backward.
enum class AttentionKernel { flash, standard };

inline std::span<const Name<AttentionKernel>> names_of(AttentionKernel) {
  static constexpr Name<AttentionKernel> kNames[] = {{"flash", AttentionKernel::flash},
                                                     {"standard", AttentionKernel::standard}};
  return kNames;
}

struct AttentionOptions {
  bool causal = false;
  AttentionKernel kernel = AttentionKernel::flash;
  // [B, T] true where a key may be seen; undefined: all. Causal attention over right-padded samples needs none: what
  // follows a position can't reach it, and what a padding position computes is used by nobody.
  at::Tensor visible_BT;
  // How the B x T positions, sample by sample, are cut into runs that see themselves alone; empty: a run is a sample.
  // Each is a call of the kernel, so that memory stays O(T) and no product of two runs is made; the outputs are copied
  // once more.
  std::vector<int64_t> runs;
};

// AttentionOptions::runs of samples that hold several documents: [B, T], equal numbers are one document.
std::vector<int64_t> runs_of(const at::Tensor& documents_BT);

// q [B, T, H, d], k and v [B, S, H_kv, d], H a multiple of H_kv -> [B, T, H, d]. S is T or, in generation, larger: the
// queries are the last T positions of the keys. Works on meta tensors.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionOptions& options);

}  // namespace shade::nn
