// What random_checkpoint writes and load_memory expects to find.
#pragma once

#include <ATen/ATen.h>

#include "shade/nn/parameters.h"

namespace shade::test {

// Elements [begin, begin + count) of a weight of the random checkpoint.
inline at::Tensor random_part(const nn::Weight& weight, int64_t begin, int64_t count) {
  auto flat = at::empty({count}, at::kBFloat16);
  constexpr int64_t kPiece = int64_t{4} << 20;  // they are drawn in fp32, which needs twice the memory of the result
  for (int64_t at = 0; at < count; at += kPiece)
    nn::initialise(flat.narrow(0, at, std::min(kPiece, count - at)), weight, /*seed=*/1, begin + at);
  return flat;
}

}  // namespace shade::test
