// CPU: libtorch's flash kernel. Meta: shapes only. CUDA: the memory-efficient kernel, which takes masks and any head
// dim; compiled here, not run for want of a GPU.
#include "shade/nn/attention_kernels.h"

#include <ATen/ATen.h>

#include "shade/base/error.h"

namespace shade::nn {
namespace {

std::optional<at::Tensor> optional(const at::Tensor& t) { return t.defined() ? std::optional(t) : std::nullopt; }

// No samples, nothing to compute; libtorch's kernel would divide by their number.
bool shapes_only(const FlashInput& in) { return in.q.is_meta() || in.q.numel() == 0; }

// The log-sum-exp of the efficient kernel is padded to multiples of 32 positions; it is passed back as it came.
std::tuple<at::Tensor, at::Tensor> efficient_forward(const FlashInput& in) {
  const auto bias =
      in.mask.defined() ? std::optional(in.mask.expand({in.q.size(0), in.q.size(1), -1, -1})) : std::nullopt;
  auto [out, lse, seed, offset] =
      at::_scaled_dot_product_efficient_attention(in.q, in.k, in.v, bias, /*compute_log_sumexp=*/true, 0.0, in.causal);
  return {out, lse};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> efficient_backward(const FlashInput& in, const at::Tensor& g,
                                                                  const at::Tensor& out, const at::Tensor& lse) {
  const auto bias = in.mask.defined() ? in.mask.expand({in.q.size(0), in.q.size(1), -1, -1}) : at::Tensor();
  const auto none = at::empty({}, in.q.options().dtype(at::kLong));
  auto [dq, dk, dv, dbias] = at::_scaled_dot_product_efficient_attention_backward(
      g, in.q, in.k, in.v, bias, out, lse, none, none, 0.0, {true, true, true, false}, in.causal);
  return {dq, dk, dv};
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> flash_forward(const FlashInput& in) {
  if (shapes_only(in))
    return {at::empty_like(in.q),
            at::empty({in.q.size(0), in.q.size(1), in.q.size(2)}, in.q.options().dtype(at::kFloat))};
  if (in.q.is_cuda()) return efficient_forward(in);
  SHADE_REQUIRE(in.q.is_cpu(), "there is no flash attention for ", in.q.device(), "; use --attention standard");
  return at::_scaled_dot_product_flash_attention_for_cpu(in.q, in.k, in.v, 0.0, in.causal, optional(in.mask));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> flash_backward(const FlashInput& in, const at::Tensor& g,
                                                              const at::Tensor& out, const at::Tensor& lse) {
  if (shapes_only(in)) return {at::empty_like(in.q), at::empty_like(in.k), at::empty_like(in.v)};
  if (in.q.is_cuda()) return efficient_backward(in, g, out, lse);
  return at::_scaled_dot_product_flash_attention_for_cpu_backward(g, in.q, in.k, in.v, out, lse, 0.0, in.causal,
                                                                  optional(in.mask));
}

}  // namespace shade::nn
