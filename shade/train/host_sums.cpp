#include "shade/train/host_sums.h"

#include <ATen/ATen.h>

#include "shade/privacy/device_noise.h"

namespace shade::train {
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

}  // namespace shade::train
