// Softmax attention with grouped queries. No weights: projections are Linear layers around it.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <utility>
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

// What a query sees, and how attention is computed.
struct AttentionOptions {
  bool causal = false;                              // a position sees itself and those before it
  AttentionKernel kernel = AttentionKernel::flash;  // both give the same result up to rounding
  // [B, T] true where a key may be seen; undefined: all. Causal attention over right-padded samples needs none: what
  // follows a position can't reach it, and what a padding position computes is never used.
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

// Keys and values of the positions that a decoder has read, so that a next position is computed alone.

// For one batch of B texts, all of the same length. Its memory is that of `capacity` positions from the first on.
class KvCache {
 public:
  // `capacity`: largest number of positions that it can hold.
  explicit KvCache(int64_t capacity) : capacity_(capacity) {}

  int64_t length() const { return length_; }  // positions that every layer has read

  // Appends what a layer made of the next T positions, k and v [B, T, H_kv, d], and returns all it has, [B, S, H_kv,
  // d], as views. Throws Error beyond the capacity.
  std::pair<at::Tensor, at::Tensor> extend(size_t layer, const at::Tensor& k, const at::Tensor& v);
  void advance(int64_t positions) { length_ += positions; }  // after the last layer

 private:
  struct Layer {
    at::Tensor k, v;
  };
  int64_t capacity_, length_ = 0;
  std::vector<Layer> layers_;
};

}  // namespace shade::nn
