// CPU: libtorch's flash kernel. Meta: shapes only. CUDA: the flash kernel where it can (bf16, no mask), which reads
// grouped heads as they are; else the memory-efficient one, which takes masks and any head dim. Other accelerators: the
// operator that libtorch has for them to implement, with grouped heads too. Those of CUDA are compiled here, not run
// for want of a GPU.
#include "shade/nn/attention_kernels.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/execution.h"
#include "shade/nn/kernels.h"
#include "shade/nn/launches.h"

namespace shade::nn {
namespace {

using Output = std::tuple<at::Tensor, at::Tensor>;
using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

std::optional<at::Tensor> optional(const at::Tensor& t) { return t.defined() ? std::optional(t) : std::nullopt; }

// Nothing to compute; libtorch's kernel would divide by the number of samples.
bool no_samples(const FlashInput& in) { return in.q.numel() == 0; }

// Each query head with a key head of its own.
FlashInput ungrouped(FlashInput in) {
  in.k = repeated_heads(in.k, in.q.size(1));
  in.v = repeated_heads(in.v, in.q.size(1));
  return in;
}
Gradients grouped(const Gradients& found, int64_t kv_heads) {
  const auto& [dq, dk, dv] = found;
  return {dq, folded_heads(dk, kv_heads), folded_heads(dv, kv_heads)};
}

// Products of queries with keys and of shares with values, `times` pairs of them; a causal mask spares half.
void say_attention_skipped(const char* name, const FlashInput& in, double times) {
  const auto bytes = [](const at::Tensor& t) { return static_cast<double>(t.nbytes()); };
  const double scores = static_cast<double>(in.q.numel()) * static_cast<double>(in.k.size(2)) * (in.causal ? 0.5 : 1.0);
  say_skipped({.name = name,
               .element_size = static_cast<int64_t>(in.q.element_size()),
               .read = times * (bytes(in.q) + bytes(in.k) + bytes(in.v)),
               .written = times * bytes(in.q),
               .flops = 4 * times * scores});
}

// What libtorch's CPU kernels allocate for the tiles of their threads, in elements of the type that they sum in:
// `tiles` of scores, and `rows` numbers per query of a tile. Narrow types have the tiles a second time.
at::Tensor tiles_of_threads(const FlashInput& in, int64_t tiles, int64_t rows) {
  const auto length = in.q.size(2);
  const auto height = std::min<int64_t>(length, length >= 768 ? 256 : length >= 192 ? 64 : 32);
  const auto scores = tiles * height * std::min<int64_t>(in.k.size(2), 512);
  const auto sum = in.q.scalar_type() == at::kDouble ? 8 : 4, narrow = static_cast<int>(in.q.element_size());
  const auto bytes = sum * (scores + rows * height) + (narrow < 4 ? narrow * scores : 0);
  return at::empty({at::get_num_threads() * bytes}, in.q.options().dtype(at::kByte));
}

// On meta: the tensors that the kernels of the planned device make. Those of a CPU have a key head for each query head.
Output planned_forward(const FlashInput& given) {
  const bool grouped_kernel = few_launches(given.q);
  const auto in = grouped_kernel ? given : ungrouped(given);
  say_attention_skipped("flash_attention", in, 1);
  at::Tensor scratch;
  if (!grouped_kernel) scratch = tiles_of_threads(in, 1, 2 + in.q.size(3));
  return {at::empty_like(in.q),
          at::empty({in.q.size(0), in.q.size(1), in.q.size(2)}, in.q.options().dtype(at::kFloat))};
}
Gradients planned_backward(const FlashInput& given) {
  const bool grouped_kernel = few_launches(given.q);
  const auto in = grouped_kernel ? given : ungrouped(given);
  say_attention_skipped("flash_attention_backward", in, 2.5);  // five products instead of two
  const Gradients made{at::empty_like(in.q), at::empty_like(in.k), at::empty_like(in.v)};
  if (!grouped_kernel) (void)tiles_of_threads(in, 2, 1);
  return grouped(made, given.k.size(1));
}

// Without dropout nothing is drawn, and its state is not read.
at::Tensor nothing_drawn(const FlashInput& in) { return at::empty({}, in.q.options().dtype(at::kLong)); }

// CUDA's flash kernel; of compute capability 8.0 on.
bool takes_flash(const FlashInput& in) {
  const auto type = in.q.scalar_type();
  const auto width = in.q.size(3);
  return in.q.is_cuda() && !in.mask.defined() && (type == at::kBFloat16 || type == at::kHalf) && width % 8 == 0 &&
         width <= 256;
}

// While it lives, CUDA's backward kernels add in one order. The second pass of a two-pass method sums what the first
// measured: gradients that differ from call to call would not be bounded by its norms.
class OneOrder {
 public:
  OneOrder() { context_.setDeterministicAlgorithms(true, /*warn_only=*/false); }
  ~OneOrder() { context_.setDeterministicAlgorithms(was_, only_warned_); }
  OneOrder(const OneOrder&) = delete;
  OneOrder& operator=(const OneOrder&) = delete;

 private:
  at::Context& context_ = at::globalContext();
  bool was_ = context_.deterministicAlgorithms(), only_warned_ = context_.deterministicAlgorithmsWarnOnly();
};

Output cuda_flash_forward(const FlashInput& in) {
  const auto found = at::_scaled_dot_product_flash_attention(in.q, in.k, in.v, 0.0, in.causal);
  return {std::get<0>(found), std::get<1>(found)};
}

Gradients cuda_flash_backward(const FlashInput& in, const at::Tensor& g, const at::Tensor& out, const at::Tensor& lse) {
  const auto none = nothing_drawn(in);
  const OneOrder always;
  return at::_scaled_dot_product_flash_attention_backward(g, in.q, in.k, in.v, out, lse, {}, {}, in.q.size(2),
                                                          in.k.size(2), 0.0, in.causal, none, none);
}

// The log-sum-exp of the efficient kernel is padded to multiples of 32 positions; it is passed back as it came.
Output efficient_forward(const FlashInput& in) {
  const auto bias =
      in.mask.defined() ? std::optional(in.mask.expand({in.q.size(0), in.q.size(1), -1, -1})) : std::nullopt;
  const auto found =
      at::_scaled_dot_product_efficient_attention(in.q, in.k, in.v, bias, /*compute_log_sumexp=*/true, 0.0, in.causal);
  return {std::get<0>(found), std::get<1>(found)};
}

Gradients efficient_backward(const FlashInput& in, const at::Tensor& g, const at::Tensor& out, const at::Tensor& lse) {
  const auto bias = in.mask.defined() ? in.mask.expand({in.q.size(0), in.q.size(1), -1, -1}) : at::Tensor();
  const auto none = nothing_drawn(in);
  const OneOrder always;
  const auto [dq, dk, dv, dbias] = at::_scaled_dot_product_efficient_attention_backward(
      g, in.q, in.k, in.v, bias, out, lse, none, none, 0.0, {true, true, true, false}, in.causal);
  return {dq, dk, dv};
}

Output other_forward(const FlashInput& in) {
  SHADE_REQUIRE(has_kernel("aten::_scaled_dot_product_fused_attention_overrideable", "", in.q),
                "there is no flash attention for ", in.q.device(), "; use --attention standard");
  const auto found =
      at::_scaled_dot_product_fused_attention_overrideable(in.q, in.k, in.v, optional(in.mask), 0.0, in.causal);
  return {std::get<0>(found), std::get<1>(found)};
}

Gradients other_backward(const FlashInput& in, const at::Tensor& g, const at::Tensor& out, const at::Tensor& lse) {
  const auto none = nothing_drawn(in);
  const auto [dq, dk, dv, dbias] = at::_scaled_dot_product_fused_attention_overrideable_backward(
      g, in.q, in.k, in.v, in.mask, {true, true, true, false}, out, lse, {}, {}, in.q.size(2), in.k.size(2), 0.0,
      in.causal, none, none);
  return {dq, dk, dv};
}

}  // namespace

at::Tensor repeated_heads(const at::Tensor& x, int64_t heads) {
  const auto times = heads / x.size(1);
  if (times == 1) return x;
  return x.unsqueeze(2)
      .expand({x.size(0), x.size(1), times, x.size(2), x.size(3)})
      .reshape({x.size(0), heads, x.size(2), x.size(3)});
}

at::Tensor folded_heads(const at::Tensor& g, int64_t kv_heads) {
  if (g.size(1) == kv_heads) return g;
  return g.reshape({g.size(0), kv_heads, g.size(1) / kv_heads, g.size(2), g.size(3)}).sum(2);
}

Output flash_forward(const FlashInput& in) {
  if (in.q.is_meta()) return planned_forward(in);
  if (no_samples(in))
    return {at::empty_like(in.q),
            at::empty({in.q.size(0), in.q.size(1), in.q.size(2)}, in.q.options().dtype(at::kFloat))};
  if (takes_flash(in)) return cuda_flash_forward(in);
  if (!in.q.is_cpu() && !in.q.is_cuda()) return other_forward(in);
  const auto all = ungrouped(in);
  if (in.q.is_cuda()) return efficient_forward(all);
  return at::_scaled_dot_product_flash_attention_for_cpu(all.q, all.k, all.v, 0.0, all.causal, optional(all.mask));
}

Gradients flash_backward(const FlashInput& in, const at::Tensor& g, const at::Tensor& out, const at::Tensor& lse) {
  if (in.q.is_meta()) return planned_backward(in);
  if (no_samples(in)) return {at::empty_like(in.q), at::empty_like(in.k), at::empty_like(in.v)};
  if (takes_flash(in)) return cuda_flash_backward(in, g, out, lse);
  if (!in.q.is_cpu() && !in.q.is_cuda()) return other_backward(in, g, out, lse);
  const auto all = ungrouped(in);
  const auto kv_heads = in.k.size(1);
  if (in.q.is_cuda()) return grouped(efficient_backward(all, g, out, lse), kv_heads);
  return grouped(at::_scaled_dot_product_flash_attention_for_cpu_backward(g, all.q, all.k, all.v, out, lse, 0.0,
                                                                          all.causal, optional(all.mask)),
                 kv_heads);
}

}  // namespace shade::nn
