// The choice of a next token.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <random>

namespace shade::serve {

// In this order, as transformers has it: logits over temperature, the top_k largest of them, of these the fewest whose
// probabilities sum up to top_p.
struct SamplingOptions {
  double temperature = 0;  // 0: always the most probable token (greedy)
  int64_t top_k = 0;       // 0: all
  double top_p = 1;
  uint64_t seed = 0;  // the same seed draws the same tokens
};

class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {}

  at::Tensor operator()(const at::Tensor& logits_BV);  // [B] int64; of equal logits the first

 private:
  SamplingOptions options_;
  std::mt19937_64 random_;
};

}  // namespace shade::serve
