// What noise looks like, from its numbers alone.
#pragma once

#include <ATen/core/Tensor.h>

namespace shade::proof {

// Of noise that should be normal with a deviation that is known.
class NoiseFigures {
 public:
  explicit NoiseFigures(double deviation) : deviation_(deviation) {}
  void add(const at::Tensor& noise);

  double ratio() const;    // the deviation found over the one that is expected
  bool plausible() const;  // ratio and mean are within five standard errors: 1 of 10^6 right ones is not

 private:
  double deviation_, count_ = 0, sum_ = 0, squares_ = 0;  // in units of the deviation
};

}  // namespace shade::proof
