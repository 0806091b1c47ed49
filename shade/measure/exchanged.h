// A few numbers of every rank.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "shade/comm/group.h"

namespace shade::measure {

// By rank. Collective; every rank gives as many.
inline std::vector<at::Tensor> exchanged(const comm::Group& group, const std::vector<double>& mine) {
  const auto count = static_cast<int64_t>(mine.size());
  auto all = at::empty({group.size() * count}, at::kDouble);
  group.all_gather(all, at::tensor(mine, at::kDouble), {.label = "results"}).wait();
  return all.view({group.size(), count}).unbind(0);
}

}  // namespace shade::measure
