#include "shade/serve/sampling.h"

#include <ATen/ATen.h>

namespace shade::serve {

at::Tensor Sampler::operator()(const at::Tensor& logits_BV) {
  const auto wide_BV = logits_BV.to(at::kDouble);
  if (options_.temperature == 0) return wide_BV.argmax(-1);
  auto [sorted, ids] = wide_BV.div(options_.temperature).sort(/*stable=*/true, -1, /*descending=*/true);
  if (options_.top_k > 0) {
    const auto kept = std::min(options_.top_k, sorted.size(1));
    sorted = sorted.narrow(1, 0, kept);
    ids = ids.narrow(1, 0, kept);
  }
  auto chances = at::softmax(sorted, -1);
  // A token is drawn if those before it have less than top_p together; the first always is.
  const auto before = chances.cumsum(-1) - chances;
  chances = chances.masked_fill((before >= options_.top_p).logical_and(before > 0), 0);
  const auto steps = chances.cumsum(-1);
  auto drawn = at::empty({steps.size(0), 1}, steps.options());
  for (int64_t row = 0; row < drawn.size(0); ++row)
    drawn[row][0] = std::uniform_real_distribution<double>()(random_) * steps[row][-1].item<double>();
  const auto places = at::searchsorted(steps, drawn, /*out_int32=*/false, /*right=*/true);
  return ids.gather(1, places.clamp_max(steps.size(1) - 1)).squeeze(1);
}

}  // namespace shade::serve
