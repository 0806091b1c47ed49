#include "shade/train/step_sums.h"

#include <ATen/ATen.h>

#include <array>
#include <bit>

namespace shade::train {

void StepSums::reduce(const comm::Group& control) {
  auto all = std::bit_cast<std::array<double, sizeof(StepSums) / sizeof(double)>>(*this);
  const auto sums = at::from_blob(all.data(), {static_cast<int64_t>(all.size())}, at::kDouble);
  control.all_reduce(sums, {.label = "loss and norm"}).wait();
  *this = std::bit_cast<StepSums>(all);
}

}  // namespace shade::train
