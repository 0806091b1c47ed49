#include "shade/optim/gradient_norm.h"

#include <ATen/ATen.h>

#include <cmath>

#include "shade/base/error.h"
#include "shade/base/execution.h"

namespace shade::optim {

at::Tensor squared_norm(std::span<const Slot> slots) {
  constexpr int64_t kBlock = 1 << 16;  // the fp64 copy stays in the cache
  const at::NoGradGuard no_graph;
  at::Tensor sum;
  for (const auto& slot : slots) {
    if (slot.gradient.numel() == 0) continue;
    if (slot.gradient.is_meta()) {
      say_skipped({.name = "squared_norm",
                   .element_size = static_cast<int64_t>(slot.gradient.element_size()),
                   .read = static_cast<double>(slot.gradient.nbytes())});
      continue;
    }
    auto total = at::zeros({}, slot.gradient.options().dtype(at::kDouble));
    for (const auto& block : slot.gradient.split(slot.gradient.is_cpu() ? kBlock : slot.gradient.numel())) {
      const auto exact = block.to(at::kDouble);
      total.add_(exact.dot(exact));
    }
    sum = sum.defined() ? sum.add_(total) : total;
  }
  return sum.defined() ? sum : at::zeros({}, at::kDouble);
}

double clip_factor(double norm, double limit) {
  SHADE_CHECK(limit > 0, "a gradient can't be clipped to norm ", limit);
  if (!std::isfinite(norm))
    throw Error(text("the norm of the gradient is ", norm, "; expected a finite number. The loss has diverged or a ",
                     "sample holds values that are not finite: lower the learning rate, or check the data"));
  return norm > limit ? limit / norm : 1;
}

}  // namespace shade::optim
