// Operators that CUDA has and a CPU lacks, made of others on the CPU: one launch each, as there.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "shade/nn/attention_kernels.h"
#include "tests/support/device/kernels.h"

namespace shade::test::device {
namespace {

at::Tensor mm(const at::Tensor& x, const at::Tensor& y, at::ScalarType type) { return at::mm(x.to(type), y.to(type)); }
at::Tensor& mm_out(const at::Tensor& x, const at::Tensor& y, at::ScalarType type, at::Tensor& out) {
  return at::mm_out(out, x.to(type), y.to(type));
}
at::Tensor bmm(const at::Tensor& x, const at::Tensor& y, at::ScalarType type) {
  return at::bmm(x.to(type), y.to(type));
}

at::ScalarType wide(const at::Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x, at::IntArrayRef,
                                            const std::optional<at::Tensor>& scale, std::optional<double> eps) {
  const auto wide_x = x.to(wide(x));
  const auto inverse = wide_x.square().mean(-1, true).add_(eps.value()).rsqrt_();
  return {(wide_x * inverse * scale.value()).to(x.scalar_type()), inverse};
}
std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& g, const at::Tensor& x, at::IntArrayRef,
                                                     const at::Tensor& inverse, const std::optional<at::Tensor>& scale,
                                                     std::array<bool, 2>) {
  const auto normal = x.to(wide(x)) * inverse, scaled = g.to(wide(x)) * scale.value();
  return {((scaled - normal * (scaled * normal).mean(-1, true)) * inverse).to(x.scalar_type()), at::Tensor()};
}

using Attended = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor,
                            at::Tensor, at::Tensor>;
Attended attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::optional<at::Tensor>& bias,
                   double, bool causal, bool, std::optional<double>) {
  const auto [out, lse] = nn::flash_forward({q, k, v, bias.value_or(at::Tensor()), causal});
  return {out, lse, {}, {}, q.size(2), k.size(2), {}, {}, {}};
}
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> attention_backward(
    const at::Tensor& g, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
    std::array<bool, 4>, const at::Tensor& out, const at::Tensor& lse, const at::Tensor&, const at::Tensor&,
    c10::SymInt, c10::SymInt, double, bool causal, const at::Tensor&, const at::Tensor&, std::optional<double>) {
  const auto [dq, dk, dv] = nn::flash_backward({q, k, v, bias, causal}, g, out, lse);
  return {dq, dk, dv, at::Tensor()};
}

TORCH_LIBRARY_IMPL(aten, CPU, library) {
  library.impl("mm.dtype", mm);
  library.impl("mm.dtype_out", mm_out);
  library.impl("bmm.dtype", bmm);
  library.impl("_fused_rms_norm", rms_norm);
  library.impl("_fused_rms_norm_backward", rms_norm_backward);
  library.impl("_scaled_dot_product_fused_attention_overrideable", attention);
  library.impl("_scaled_dot_product_fused_attention_overrideable_backward", attention_backward);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  for (const auto* op : {"mm.dtype", "mm.dtype_out", "bmm.dtype", "_fused_rms_norm", "_fused_rms_norm_backward",
                         "_scaled_dot_product_fused_attention_overrideable",
                         "_scaled_dot_product_fused_attention_overrideable_backward"})
    library.impl(op, torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

}  // namespace
}  // namespace shade::test::device
