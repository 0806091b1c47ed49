#include "shade/privacy/clip/weighted_sum.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "shade/nn/launches.h"

namespace shade::privacy {
namespace {

int64_t columns_at_a_time(const at::Tensor& gradients_BN, int64_t element) {
  if (!nn::few_launches(gradients_BN)) return int64_t{1} << 16;
  const auto samples = std::max<int64_t>(1, gradients_BN.size(0));
  return std::max<int64_t>(1, nn::largest_block(gradients_BN).count / (samples * element));
}

// Without a copy of the whole: a block is widened, blanked and summed before the next.
void put_blocks(const at::Tensor& into_N, const at::Tensor& gradients_BN, const SampleWeights& weights, bool adds) {
  const auto type = into_N.scalar_type();
  const auto columns = columns_at_a_time(gradients_BN, into_N.element_size());
  const bool same = gradients_BN.scalar_type() == type;
  for (int64_t at = 0; at < into_N.numel(); at += columns) {
    const auto size = std::min(columns, into_N.numel() - at);
    auto into = into_N.narrow(0, at, size);
    auto block = gradients_BN.narrow(1, at, size).to(type);
    if (weights.left_out_B.defined()) {
      const auto mask = weights.left_out_B.unsqueeze(1);
      block = same ? block.masked_fill(mask, 0) : block.masked_fill_(mask, 0);
    }
    adds ? into.addmv_(block.t(), weights.c_B) : at::mv_out(into, block.t(), weights.c_B);
  }
}

}  // namespace

SampleWeights sample_weights(const at::Tensor& c_B, at::ScalarType type) {
  auto left_out = c_B == 0;
  // On meta as where it costs least: no sample is left out.
  if (!nn::few_launches(c_B) && (c_B.is_meta() || !left_out.any().item<bool>())) left_out.reset();
  return {c_B.to(type), left_out};
}

void put_weighted_sum(at::Tensor into_N, const at::Tensor& gradients_BN, const SampleWeights& weights, bool adds) {
  if (nn::few_launches(gradients_BN) || gradients_BN.scalar_type() != into_N.scalar_type())
    return put_blocks(into_N, gradients_BN, weights, adds);
  const auto& [c_B, left_out_B] = weights;
  const auto whole_BN = left_out_B.defined() ? gradients_BN.masked_fill(left_out_B.unsqueeze(1), 0) : gradients_BN;
  if (whole_BN.size(0) == 1 && !adds)
    at::mul_out(into_N, whole_BN[0], c_B);
  else
    adds ? into_N.addmv_(whole_BN.t(), c_B) : at::mv_out(into_N, whole_BN.t(), c_B);
}

}  // namespace shade::privacy
