#include "shade/io/dtype.h"

#include <utility>

#include "shade/io/strict_json.h"

namespace shade::io {

namespace {

constexpr std::pair<Dtype, at::ScalarType> kPairs[] = {{Dtype::boolean, at::kBool},
                                                       {Dtype::u8, at::kByte},
                                                       {Dtype::i8, at::kChar},
                                                       {Dtype::f8_e5m2, at::kFloat8_e5m2},
                                                       {Dtype::f8_e4m3, at::kFloat8_e4m3fn},
                                                       {Dtype::i16, at::kShort},
                                                       {Dtype::u16, at::kUInt16},
                                                       {Dtype::f16, at::kHalf},
                                                       {Dtype::bf16, at::kBFloat16},
                                                       {Dtype::i32, at::kInt},
                                                       {Dtype::u32, at::kUInt32},
                                                       {Dtype::f32, at::kFloat},
                                                       {Dtype::f64, at::kDouble},
                                                       {Dtype::i64, at::kLong},
                                                       {Dtype::u64, at::kUInt64}};

}  // namespace

at::ScalarType scalar_type(Dtype dtype) {
  for (const auto& [ours, theirs] : kPairs)
    if (ours == dtype) return theirs;
  SHADE_CHECK(false, "dtype ", static_cast<int>(dtype), " has no scalar type");
  return at::ScalarType::Undefined;
}

Dtype dtype_of(at::ScalarType type, std::string_view tensor) {
  for (const auto& [ours, theirs] : kPairs)
    if (theirs == type) return ours;
  throw UsageError(text("tensor ", quote(tensor), ": ", c10::toString(type), " can't be written; convert it to one of ",
                        join(all_names<Dtype>(), ", ")));
}

std::optional<at::ScalarType> from_hf_name(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf})
    if (name == hf_name(type)) return type;
  return std::nullopt;
}

const char* hf_name(at::ScalarType type) {
  switch (type) {
    case at::kDouble: return "float64";
    case at::kFloat: return "float32";
    case at::kBFloat16: return "bfloat16";
    case at::kHalf: return "float16";
    default:
      throw UsageError(
          text("a model can't be written as ", c10::toString(type), "; choose float, bfloat16, half or double"));
  }
}

std::span<const std::byte> bytes_of(const at::Tensor& dense) {
  return {static_cast<const std::byte*>(dense.const_data_ptr()), dense.nbytes()};
}

}  // namespace shade::io
