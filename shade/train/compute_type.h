// The types a model is trained in. fp64 is for checking (shade verify): optimizers and masters are fp32.
#pragma once

#include "shade/nn/dtype.h"

namespace shade::train {

enum class ComputeType { fp32, bf16 };
inline std::span<const Name<ComputeType>> names_of(ComputeType) {
  static constexpr Name<ComputeType> kNames[] = {{"fp32", ComputeType::fp32}, {"bf16", ComputeType::bf16}};
  return kNames;
}

inline nn::DType dtype_of(ComputeType type) { return type == ComputeType::bf16 ? nn::DType::bf16 : nn::DType::fp32; }
inline at::ScalarType scalar_type(ComputeType type) { return nn::scalar_type(dtype_of(type)); }

}  // namespace shade::train
