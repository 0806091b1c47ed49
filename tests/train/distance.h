#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <vector>

namespace shade::train {

using Tensors = std::vector<at::Tensor>;

// Of all tensors together, in the norm, as a share of what is wanted.
inline double distance(const Tensors& found, const Tensors& wanted) {
  double gap = 0, size = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    gap += (found[i] - wanted[i]).to(at::kDouble).square().sum().item<double>();
    size += wanted[i].to(at::kDouble).square().sum().item<double>();
  }
  return std::sqrt(gap / size);
}

}  // namespace shade::train
