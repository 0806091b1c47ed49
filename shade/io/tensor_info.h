// One tensor of a file: what it is and where its bytes lie.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shade/io/dtype.h"

namespace shade::io {

struct TensorInfo {
  Dtype dtype = Dtype::f32;
  std::vector<int64_t> shape;  // row-major; [] is a scalar
  uint64_t begin = 0;          // bytes from the begin of the data
  uint64_t end = 0;

  uint64_t size() const { return end - begin; }  // bytes
};

// Bytes of a tensor; throws FormatError if they, or its strides, overflow 64 bits. `name` is for the message.
uint64_t tensor_size(std::string_view name, Dtype dtype, std::span<const int64_t> shape);

std::string print_shape(std::span<const int64_t> shape);  // "[2, 3]"; at most 8 dims of it

}  // namespace shade::io
