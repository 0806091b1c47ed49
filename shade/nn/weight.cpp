#include "shade/nn/weight.h"

#include <functional>
#include <numeric>

#include "shade/base/error.h"

namespace shade::nn {

const at::Tensor& Weight::value() const {
  SHADE_CHECK(value_.defined(), "weight ", name_, " was asked for while its unit is not held");
  return value_;
}

int64_t Weight::numel() const { return std::accumulate(shape_.begin(), shape_.end(), int64_t{1}, std::multiplies<>()); }

void Weight::bind(at::Tensor value) {
  SHADE_REQUIRE(value.sizes() == at::IntArrayRef(shape_), "weight ", name_, " has shape ", at::IntArrayRef(shape_),
                ", but a tensor of shape ", value.sizes(), " was given");
  value_ = std::move(value);
}

}  // namespace shade::nn
