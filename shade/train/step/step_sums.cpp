#include "shade/train/step/step_sums.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <bit>

#include "shade/privacy/device_noise.h"

namespace shade::train {

void StepSums::reduce(const comm::Group& control) {
  auto all = std::bit_cast<std::array<double, sizeof(StepSums) / sizeof(double)>>(*this);
  const auto sums = at::from_blob(all.data(), {static_cast<int64_t>(all.size())}, at::kDouble);
  control.all_reduce(sums, {.label = "loss and norm"}).wait();
  *this = std::bit_cast<StepSums>(all);
}

namespace {

std::vector<at::Tensor> sums_of(std::span<const shard::LocalShard> shards) {
  std::vector<at::Tensor> out;
  for (const auto& shard : shards) out.push_back(shard.gradient);
  return out;
}

std::vector<at::Tensor> on_host(const std::vector<at::Tensor>& sums) {
  std::vector<at::Tensor> out;
  for (const auto& sum : sums) {
    out.push_back(sum);
    if (sum.is_cpu() || sum.is_meta() || privacy::noise_on_device(sum.device())) continue;
    out.back() = nn::host_empty(sum.numel(), sum.scalar_type(), sum.device());
    out.back().copy_(sum, /*non_blocking=*/true);
  }
  return out;
}

}  // namespace

HostSums::HostSums(std::span<const shard::LocalShard> shards, at::Device device)
    : sums_(sums_of(shards)), values_(on_host(sums_)), copies_(device) {}

std::span<const at::Tensor> HostSums::values() {
  copies_.wait();
  return values_;
}

void HostSums::give_back() {
  for (size_t i = 0; i < sums_.size(); ++i)
    if (!values_[i].is_same(sums_[i])) sums_[i].copy_(values_[i], /*non_blocking=*/true);
}

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
