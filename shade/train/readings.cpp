#include "shade/train/readings.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace shade::train {

size_t Readings::add(const at::Tensor& numbers, int64_t count) {
  const auto place = values_.size();
  const bool has_values = numbers.defined() && !numbers.is_meta();
  values_.resize(place + static_cast<size_t>(has_values ? numbers.numel() : count));
  if (has_values) parts_.push_back({place, numbers.detach().to(at::kDouble).reshape({-1})});
  return place;
}

void Readings::read() {
  const auto write = [&](size_t place, const at::Tensor& here) {
    std::copy_n(here.const_data_ptr<double>(), here.numel(), values_.begin() + static_cast<std::ptrdiff_t>(place));
  };
  std::vector<at::Tensor> apart;
  for (const auto& [place, numbers] : parts_)
    if (!numbers.is_cpu()) apart.push_back(numbers);
  const auto moved = apart.empty() ? at::Tensor() : at::cat(apart).cpu();
  int64_t at = 0;
  for (const auto& [place, numbers] : parts_) {
    const auto size = numbers.numel();
    write(place, numbers.is_cpu() ? numbers.contiguous() : moved.narrow(0, at, size));
    if (!numbers.is_cpu()) at += size;
  }
  parts_.clear();
}

}  // namespace shade::train
