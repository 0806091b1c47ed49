#include "shade/nn/function.h"

#include <ATen/ATen.h>

#include "shade/base/error.h"

namespace shade::nn {

const at::Tensor& anchor() {
  static const at::Tensor instance = at::zeros({}).set_requires_grad(true);
  return instance;
}

at::Tensor as_BTD(const at::Tensor& x) {
  SHADE_CHECK(x.dim() >= 2, "expected [B, ..., D], got ", x.sizes());
  return x.dim() == 3 ? x : x.reshape({x.size(0), x.dim() == 2 ? 1 : -1, x.size(-1)});
}

}  // namespace shade::nn
