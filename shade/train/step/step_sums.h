// What the ranks add up in every step, in one small message.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "shade/comm/group.h"
#include "shade/nn/device.h"
#include "shade/shard/sharded_unit.h"

namespace shade::train {

// Of this rank; after reduce() of all of them. Doubles alone: they travel as an array.
struct StepSums {
  double loss = 0, losses = 0;  // the sum of losses, and what it is a sum of: samples or tokens
  double samples = 0;
  double tokens = 0, squared_tokens = 0;        // without padding; the second sample by sample
  double positions = 0, squared_positions = 0;  // the same with padding and blank samples
  double squared_norm = 0;                      // of gradient elements that this rank owns alone
  double clipped = 0, not_finite = 0;
  double below = 0;           // privacy::ClipCounts::below
  double stop = 0, save = 0;  // how many ranks asked for it

  void reduce(const comm::Group& control);
};

// Where noise is added: a rank's clipped sums in memory of the host.
//
// Gradients on the CPU are used as they are. Those of a device are copied to pinned memory, noised there and copied
// back: added on the device by libtorch in fp32, the noise would leave its grid (privacy/grid.h). If the device adds it
// itself (privacy/device_noise.h), they stay there.
class HostSums {
 public:
  // Begins the copies and doesn't block. The shards' tensors are kept.
  HostSums(std::span<const shard::LocalShard> shards, at::Device device);

  // The sums of each shard. Blocks until the copies are done: noise that a copy overwrites would be none.
  std::span<const at::Tensor> values();
  void give_back();  // to the device; doesn't block

 private:
  std::vector<at::Tensor> sums_, values_;
  nn::Issued copies_;
};

// Numbers that kernels computed, brought to the host together: a step waits for its device once.
//
//   Readings numbers;
//   const auto loss = numbers.add(loss_and_count);      // still on the device
//   numbers.read();                                     // one transfer
//   use(numbers[loss], numbers[loss + 1]);
class Readings {
 public:
  // A number or several; returns the place of the first. An undefined or meta tensor stands for `count` zeros.
  size_t add(const at::Tensor& numbers, int64_t count = 1);
  void read();  // of those on a device, in one copy that blocks; those on the host are read as they are
  double operator[](size_t place) const { return values_.at(place); }

 private:
  struct Part {
    size_t place;
    at::Tensor numbers;  // flat, fp64
  };
  std::vector<Part> parts_;
  std::vector<double> values_;
};

}  // namespace shade::train
