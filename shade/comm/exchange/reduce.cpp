#include <ATen/ATen.h>

#include <algorithm>

#include "shade/comm/exchange/algorithms.h"

namespace shade::comm::exchange {
namespace {

void combine(at::Tensor into, const at::Tensor& a, const at::Tensor& b, Reduce reduce) {
  switch (reduce) {
    case Reduce::sum: at::add_out(into, a, b); return;
    case Reduce::max: at::maximum_out(into, a, b); return;
    case Reduce::min: at::minimum_out(into, a, b); return;
  }
}

bool narrow_float(at::ScalarType type) { return type == at::kBFloat16 || type == at::kHalf; }

}  // namespace

void reduce_in_order(at::Tensor output, std::span<const at::Tensor> parts, Reduce reduce) {
  if (parts.size() == 1) {
    output.copy_(parts[0]);
    return;
  }
  const auto type = parts[0].scalar_type();
  const bool narrow = narrow_float(type) && output.scalar_type() == type;
  // In place, the output may be one of the parts; it must not be overwritten before its turn.
  const bool overwrites = std::any_of(parts.begin() + 2, parts.end(), [&](const at::Tensor& part) {
    return part.is_alias_of(output) && part.data_ptr() == output.data_ptr();
  });
  const auto sum = narrow || overwrites
                       ? at::empty(output.sizes(), output.options().dtype(narrow ? at::kFloat : output.scalar_type()))
                       : output;
  const auto wide = [&](const at::Tensor& part) { return part.to(sum.scalar_type()); };
  combine(sum, wide(parts[0]), wide(parts[1]), reduce);
  for (const auto& part : parts.subspan(2)) combine(sum, sum, wide(part), reduce);
  if (!sum.is_same(output)) output.copy_(sum);
}

}  // namespace shade::comm::exchange
