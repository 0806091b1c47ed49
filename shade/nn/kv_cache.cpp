#include "shade/nn/kv_cache.h"

#include <ATen/ATen.h>

#include "shade/base/error.h"

namespace shade::nn {

std::pair<at::Tensor, at::Tensor> KvCache::extend(size_t layer, const at::Tensor& k, const at::Tensor& v) {
  const auto positions = k.size(1);
  SHADE_CHECK(length_ + positions <= capacity_, "a cache of ", capacity_, " positions has ", length_,
              " of them, and is given ", positions, " more");
  if (layer >= layers_.size()) layers_.resize(layer + 1);
  const auto append = [&](at::Tensor& all, const at::Tensor& next) {
    if (!all.defined()) all = at::empty({next.size(0), capacity_, next.size(2), next.size(3)}, next.options());
    all.narrow(1, length_, positions).copy_(next);
    return all.narrow(1, 0, length_ + positions);
  };
  return {append(layers_[layer].k, k), append(layers_[layer].v, v)};
}

}  // namespace shade::nn
