// Keys and values of the positions that a decoder has read, so that a next position is computed alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace shade::nn {

// For one batch of B texts, all of the same length. Its memory is that of `capacity` positions from the first on.
class KvCache {
 public:
  explicit KvCache(int64_t capacity) : capacity_(capacity) {}

  int64_t length() const { return length_; }  // positions that every layer has read
  int64_t capacity() const { return capacity_; }

  // Appends what a layer made of the next T positions, k and v [B, T, H_kv, d], and returns all it has, [B, S, H_kv,
  // d], as views. Throws Error beyond the capacity.
  std::pair<at::Tensor, at::Tensor> extend(size_t layer, const at::Tensor& k, const at::Tensor& v);
  void advance(int64_t positions) { length_ += positions; }  // after the last layer

 private:
  struct Layer {
    at::Tensor k, v;
  };
  int64_t capacity_, length_ = 0;
  std::vector<Layer> layers_;
};

}  // namespace shade::nn
