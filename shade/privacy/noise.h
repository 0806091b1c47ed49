// Gaussian noise as a function, not a stream.
//
// Element i of a weight gets, in a step, a number that depends on (key, step, weight, i) and nothing
// else: the same for every world size, strategy and order, nothing drawn twice, no state to save. A rank draws what it
// owns. The bits are ChaCha20's (chacha20.h): a subkey for each (step, weight) by keyed BLAKE2b
// with its own personalisation (key.h), 32 blocks for 256 elements and more where they don't decide. What is released
// is the exact sum of the gradient and an ideal normal number, rounded once to a grid (grid.h, docs/noise.md).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "shade/privacy/key.h"

namespace shade::privacy {

struct NoiseTask;

class Noise {
 public:
  explicit Noise(const NoiseKey& key) : key_(key) {}

  // Adds deviation * N(0, 1) to `flat`, which are elements [begin, begin + size) of a weight in fp64, and rounds the
  // sums to the grid of that deviation. A deviation of 0 changes nothing.
  void add(at::Tensor flat, double deviation, uint64_t step, int64_t weight, int64_t begin) const;
  // The same for a number that is no weight's (the count of adaptive clipping): a separate stream, -1, -2, ...
  double added(double value, double deviation, uint64_t step, int64_t stream) const;

  // What a GPU needs for the same, of `size` elements (noise_lane.h).
  NoiseTask task(double deviation, uint64_t step, int64_t weight, int64_t begin, int64_t size) const;

 private:
  NoiseKey key_;
};

// The one place that a step's noise is asked of: by step, weight and range of its elements, in any order. Noise that is
// correlated over steps is another source.
class NoiseSource {
 public:
  virtual ~NoiseSource() = default;
  // To elements [begin, begin + flat.numel()) of a weight; rounds the sums to the grid of the deviation (grid.h).
  virtual void add(at::Tensor flat, double deviation, int64_t step, int64_t weight, int64_t begin) const = 0;
  // To a number that is no weight's: streams -1, -2, ...
  virtual double added(double value, double deviation, int64_t step, int64_t stream) const = 0;
};

// Each step's from its own key, and independent of all others.
std::unique_ptr<NoiseSource> independent_noise(std::function<NoiseKey(int64_t step)> key);

}  // namespace shade::privacy
