// Memory that must not grow: the LM loss without its logits, attention without its T x T matrix.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "shade/nn/attention.h"
#include "shade/nn/gradients.h"
#include "shade/nn/losses.h"
#include "shade/profile/memory.h"

namespace shade::nn {
namespace {

using profile::TensorMemory;

TEST(Memory, LmLossOfALargeVocabulary) {
  TensorMemory::track();
  constexpr int64_t kV = 128'256, kT = 4096, kD = 512;
  Parameters parameters;
  parameters.begin_unit("head");
  const auto& weight = parameters.add("w", {kV, kD}, Init::constant(0.01));
  bind_all(parameters, at::kFloat, 1);
  PlainGradients gradients;
  parameters.wiring.tap = &gradients;
  const auto labels = at::randint(0, kV, {1, kT}, at::kLong);
  const auto h = at::randn({1, kT, kD}).set_requires_grad(true);
  TensorMemory::reset_peak();
  torch::autograd::backward({lm_losses(h, weight, parameters.wiring, labels, {})}, {});
  const auto logits = 4 * kV * kT;
  std::printf("LM loss, V=%ld T=%ld d=%ld: peak %s; the full logits alone are %s\n", static_cast<long>(kV),
              static_cast<long>(kT), static_cast<long>(kD), to_string(TensorMemory::peak()).c_str(),
              to_string(Bytes{logits}).c_str());
  EXPECT_LT(TensorMemory::peak().count, 3 * logits / 4);
  EXPECT_TRUE(gradients.has(weight));
}

TEST(Memory, FlashAttentionIsLinearInT) {
  TensorMemory::track();
  const auto peak_of = [](AttentionKernel kernel, int64_t t) {
    std::vector<at::Tensor> qkv;
    for (int i = 0; i < 3; ++i) qkv.push_back(at::randn({1, t, 4, 64}).set_requires_grad(true));
    TensorMemory::reset_peak();
    const auto before = TensorMemory::current();
    torch::autograd::backward({attention(qkv[0], qkv[1], qkv[2], {.causal = true, .kernel = kernel}).sum()}, {});
    return TensorMemory::peak() - before;
  };
  const auto flash = peak_of(AttentionKernel::flash, 4096);
  const auto standard = peak_of(AttentionKernel::standard, 4096);
  std::printf("attention, T=4096, 4 heads of 64: flash %s, standard %s above its inputs\n", to_string(flash).c_str(),
              to_string(standard).c_str());
  EXPECT_LT(flash.count, 2.2 * static_cast<double>(peak_of(AttentionKernel::flash, 2048).count));
  EXPECT_GT(standard.count, 3 * int64_t{4096} * 4096 * 4 * 4) << "scores, shares and their gradients";
  EXPECT_LT(flash.count, standard.count / 10);
}

}  // namespace
}  // namespace shade::nn
