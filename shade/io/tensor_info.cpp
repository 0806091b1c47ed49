#include "shade/io/tensor_info.h"

#include <algorithm>

#include "shade/io/errors.h"
#include "shade/io/untrusted_text.h"

namespace shade::io {

uint64_t tensor_size(std::string_view name, Dtype dtype, std::span<const int64_t> shape) {
  // A dim of 0 doesn't excuse the others: strides are products that skip it.
  int64_t extent = size_of(dtype);
  bool empty = false;
  for (const auto dim : shape) {
    empty = empty || dim == 0;
    if (__builtin_mul_overflow(extent, std::max<int64_t>(dim, 1), &extent))
      throw FormatError(
          text("tensor ", quote(name), ": shape ", print_shape(shape), " of ", to_string(dtype), " overflows 64 bits"));
  }
  return empty ? 0 : static_cast<uint64_t>(extent);
}

std::string print_shape(std::span<const int64_t> shape) {
  constexpr size_t kShown = 8;
  std::vector<std::string> dims;
  for (const auto dim : shape.first(std::min(shape.size(), kShown))) dims.push_back(text(dim));
  if (shape.size() > kShown) dims.emplace_back("...");
  return "[" + join(dims, ", ") + "]";
}

}  // namespace shade::io
