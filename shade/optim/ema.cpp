#include "shade/optim/ema.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace shade::optim {
namespace {

// In blocks: what is staged stays small, and in the cache.
template <class Act>
void for_blocks(const at::Tensor& a, const at::Tensor& b, Act&& act) {
  const int64_t block = a.is_cpu() ? 1 << 16 : 1 << 22;
  for (int64_t begin = 0; begin < a.numel(); begin += block) {
    const auto size = std::min(block, a.numel() - begin);
    act(a.narrow(0, begin, size), b.narrow(0, begin, size));
  }
}

}  // namespace

// Two products and a sum, each rounded: a fused kernel rounds otherwise in its vectors than in their tail.
void follow(const at::Tensor& average, const at::Tensor& master, double decay) {
  for_blocks(average, master,
             [&](const at::Tensor& mean, const at::Tensor& now) { mean.mul_(decay).add_(now * (1 - decay)); });
}

void exchange(const at::Tensor& a, const at::Tensor& b) {
  for_blocks(a, b, [](const at::Tensor& x, const at::Tensor& y) {
    const auto kept = x.clone();
    x.copy_(y);
    y.copy_(kept);
  });
}

}  // namespace shade::optim
