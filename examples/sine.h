// Records for the examples: points of a sine with some noise.
#pragma once

#include <shade/shade.h>

inline shade::InMemory points_of_a_sine() {
  at::manual_seed(7);  // every rank brings the same
  const auto x = at::rand({4000, 4}) * 2 - 1;
  return shade::InMemory({{"x", x}, {"y", at::sin(1.2 * x.sum(1, /*keepdim=*/true)) + 0.05 * at::randn({4000, 1})}});
}
