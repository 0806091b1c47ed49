#include "shade/nn/weight.h"

#include <functional>
#include <numeric>

#include "shade/base/error.h"

namespace shade::nn {

const at::Tensor& Weight::value() const {
  SHADE_REQUIRE(value_.defined(), "weight ", name_,
                " was read while its unit is not gathered; compute with its layer inside nn::run_unit() of the unit in "
                "which the weight was declared");
  return value_;
}

int64_t Weight::numel() const { return std::accumulate(shape_.begin(), shape_.end(), int64_t{1}, std::multiplies<>()); }

void Weight::bind(at::Tensor value) {
  SHADE_REQUIRE(value.sizes() == at::IntArrayRef(shape_), "weight ", name_, " has shape ", at::IntArrayRef(shape_),
                ", but a tensor of shape ", value.sizes(), " was given");
  value_ = std::move(value);
}

}  // namespace shade::nn
