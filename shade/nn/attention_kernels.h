// The fused attention kernels of each device behind one call. [B, H, T, d] throughout; every key head serves H / H_kv
// query heads.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace shade::nn {

struct FlashInput {
  at::Tensor q, k, v;
  at::Tensor mask;  // added to the scores; undefined: none
  bool causal = false;
};

std::tuple<at::Tensor, at::Tensor> flash_forward(const FlashInput& in);  // output, log-sum-exp [B, H, T]
std::tuple<at::Tensor, at::Tensor, at::Tensor> flash_backward(const FlashInput& in, const at::Tensor& g,
                                                              const at::Tensor& out, const at::Tensor& lse);

// Key heads once for each query head, for kernels that don't know groups; and what such gradients are together.
at::Tensor repeated_heads(const at::Tensor& x, int64_t heads);
at::Tensor folded_heads(const at::Tensor& g, int64_t kv_heads);

}  // namespace shade::nn
