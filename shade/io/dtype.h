// The element types of safetensors that Shade takes, by the names the format gives them.
//
// The order is that of the reference implementation: growing alignment, and within it the reference's own. The writer
// sorts by it, so that a file of ours is byte for byte the reference's. Not taken: F4, F6_E2M3, F6_E3M2 (elements of
// less than a byte), F8_E8M0, F8_E4M3FNUZ, F8_E5M2FNUZ, C64 (nothing here computes with them).
#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "shade/base/names.h"

namespace at {
class Tensor;
}

namespace shade::io {

enum class Dtype : uint8_t { boolean, u8, i8, f8_e5m2, f8_e4m3, i16, u16, f16, bf16, i32, u32, f32, f64, i64, u64 };

inline std::span<const Name<Dtype>> names_of(Dtype) {
  static constexpr Name<Dtype> kNames[] = {
      {"BOOL", Dtype::boolean},    {"U8", Dtype::u8},   {"I8", Dtype::i8},   {"F8_E5M2", Dtype::f8_e5m2},
      {"F8_E4M3", Dtype::f8_e4m3}, {"I16", Dtype::i16}, {"U16", Dtype::u16}, {"F16", Dtype::f16},
      {"BF16", Dtype::bf16},       {"I32", Dtype::i32}, {"U32", Dtype::u32}, {"F32", Dtype::f32},
      {"F64", Dtype::f64},         {"I64", Dtype::i64}, {"U64", Dtype::u64}};
  return kNames;
}

// Bytes of an element, which is also its alignment.
constexpr int64_t size_of(Dtype dtype) {
  if (dtype < Dtype::i16) return 1;
  if (dtype < Dtype::i32) return 2;
  return dtype < Dtype::f64 ? 4 : 8;
}

// The element types of files in libtorch's words.

at::ScalarType scalar_type(Dtype dtype);

// Throws UsageError for types that files don't hold; `tensor` is the name for the message.
Dtype dtype_of(at::ScalarType type, std::string_view tensor);

// As config.json has it; transformers makes the model in this type, whatever the files hold. Throws UsageError for
// types that weights don't have.
const char* hf_name(at::ScalarType type);
// The type of such a name, "torch.bfloat16" too; none if weights don't have it.
std::optional<at::ScalarType> from_hf_name(std::string_view name);

// The numbers of a dense tensor on the CPU, as files and hashes take them.
std::span<const std::byte> bytes_of(const at::Tensor& dense);

}  // namespace shade::io
