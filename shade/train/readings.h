// Numbers that kernels computed, brought to the host together: a step waits for its device once.
//
//   Readings numbers;
//   const auto loss = numbers.add(loss_and_count);      // still on the device
//   numbers.read();                                     // one transfer
//   use(numbers[loss], numbers[loss + 1]);
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace shade::train {

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
