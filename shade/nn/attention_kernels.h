// The fused attention kernels of each device behind one call. [B, H, T, d] throughout.
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

}  // namespace shade::nn
