// The header of a safetensors file: which tensors there are and where their bytes lie.
//
//   8 bytes      N, the length of the header, little-endian
//   N bytes      {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...,
//                 "__metadata__": {"key": "value"}}, padded with spaces
//   the data     offsets count from here
//
// The rules, each with its own message: N is at most 100 MB and inside the file; the header is UTF-8, a JSON object,
// begins with '{' and has no key twice; dtypes are known; shape x dtype is data_offsets, without overflow; sorted by
// offset the tensors follow each other with no overlap and no hole, and end where the file ends. So no byte of an
// accepted file is unaccounted for, and no tensor reaches outside it.
//
// This file knows no libtorch, so that it can be fuzzed alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shade/io/dtype.h"

namespace shade::io {

// One tensor of a file: what it is and where its bytes lie.
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

inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;  // bytes; the reference's limit
inline constexpr const char* kMetadataKey = "__metadata__";

using Metadata = std::map<std::string, std::string, std::less<>>;

struct SafetensorsHeader {
  std::map<std::string, TensorInfo, std::less<>> tensors;
  Metadata metadata;
  uint64_t data_begin = 0;  // bytes from the begin of the file
};

// `file` is the whole file, of which only the header is touched. Throws FormatError. Memory follows the length of the
// header, whatever the header claims: at most 7 times it, the file itself included, for 100 MB headers made to be
// costly.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file);

}  // namespace shade::io
