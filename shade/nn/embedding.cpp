#include "shade/nn/embedding.h"

#include <ATen/ATen.h>

#include "shade/base/error.h"
#include "shade/base/execution.h"
#include "shade/nn/autograd.h"

namespace shade::nn {
namespace {

// libtorch has no shape function for a lookup in C++.
at::Tensor looked_up(const at::Tensor& table, const at::Tensor& ids) {
  if (!table.is_meta()) return at::embedding(table, ids);
  auto shape = ids.sizes().vec();
  shape.push_back(table.size(1));
  const auto rows = at::empty(shape, table.options());
  const auto bytes = static_cast<double>(rows.nbytes());
  say_skipped({.name = "embedding",
               .element_size = static_cast<int64_t>(rows.element_size()),
               .read = bytes,
               .written = bytes});
  return rows;
}

struct Lookup : torch::autograd::Function<Lookup> {
  static at::Tensor forward(Context* context, const at::Tensor&, const at::Tensor& ids, const Embedding* layer) {
    remember(context, layer);
    context->save_for_backward({ids});
    return looked_up(layer->table().value(), ids);
  }
  static Tensors backward(Context* context, Tensors grads) {
    const auto& layer = recall<Embedding>(context);
    if (const auto* table = trained(&layer.table())) {
      const auto ids = context->get_saved_variables()[0];
      layer.wiring().take(
          EmbeddingGrad{ids.dim() == 1 ? ids.unsqueeze(1) : ids, as_BTD(grads[0]), table, layer.padding()});
    }
    return {{}, {}, {}};
  }
};

struct Add : torch::autograd::Function<Add> {
  static at::Tensor forward(Context* context, const at::Tensor& x, const Added* layer) {
    remember(context, layer);
    return x + layer->added().value();
  }
  static Tensors backward(Context* context, Tensors grads) {
    const auto& layer = recall<Added>(context);
    if (const auto* added = trained(&layer.added())) layer.wiring().take(AddedGrad{grads[0], added});
    return {grads[0], {}};
  }
};

}  // namespace

Embedding::Embedding(Parameters& parameters, const std::string& name, Options options)
    : table_(&parameters.add(name + ".weight", {options.rows, options.width}, options.init)),
      padding_(options.padding),
      wiring_(&parameters.wiring) {}

at::Tensor Embedding::operator()(const at::Tensor& ids_BT, const at::Tensor& start) const {
  if (plain_operators()) return at::embedding(table_->value(), ids_BT, padding_);
  return Lookup::apply(start, ids_BT, this);
}

at::Tensor Embedding::operator()(const at::Tensor& ids_BT) const { return (*this)(ids_BT, anchor(ids_BT.device())); }

Added::Added(Parameters& parameters, const std::string& name, std::vector<int64_t> shape, Init init)
    : added_(&parameters.add(name, std::move(shape), init)), wiring_(&parameters.wiring) {}

at::Tensor Added::operator()(const at::Tensor& x_BTD) const {
  if (plain_operators()) return x_BTD + added_->value();
  return Add::apply(x_BTD, this);
}

at::Tensor dropped_labels(const at::Tensor& labels_B, int64_t none, double probability, at::Generator generator) {
  SHADE_REQUIRE(probability >= 0 && probability <= 1, "labels are dropped with a probability, not ", probability);
  const auto drawn = at::rand(labels_B.sizes(), std::move(generator), at::kFloat);
  return labels_B.masked_fill((drawn < probability).to(labels_B.device()), none);
}

}  // namespace shade::nn
