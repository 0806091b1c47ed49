// The types a model computes in, by the names users give them.
#pragma once

#include <c10/core/ScalarType.h>

#include "shade/base/names.h"

namespace shade::nn {

enum class DType { fp32, bf16, fp64 };
inline std::span<const Name<DType>> names_of(DType) {
  static constexpr Name<DType> kNames[] = {{"fp32", DType::fp32}, {"bf16", DType::bf16}, {"fp64", DType::fp64}};
  return kNames;
}

inline at::ScalarType scalar_type(DType type) {
  switch (type) {
    case DType::bf16: return at::kBFloat16;
    case DType::fp64: return at::kDouble;
    case DType::fp32: break;
  }
  return at::kFloat;
}

}  // namespace shade::nn
