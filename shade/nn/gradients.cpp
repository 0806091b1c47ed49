#include "shade/nn/gradients.h"

#include <ATen/ATen.h>

#include "shade/base/error.h"
#include "shade/nn/function.h"

namespace shade::nn {
namespace {

// into = value, or into += value
void put(at::Tensor into, const at::Tensor& value, bool add) {
  if (add)
    into.add_(value);
  else
    into.copy_(value);
}

// [B, T, D] -> [D], each sample for itself first: a sample's part is rounded alike wherever it stands in the batch.
at::Tensor over_samples(const at::Tensor& x_BTD) { return x_BTD.sum(1, false, wide(x_BTD.scalar_type())).sum(0); }

// into (+)= g^T a, without a temporary where the types agree.
void put_product(at::Tensor into, const at::Tensor& g_NP, const at::Tensor& a_ND, bool add) {
  if (into.scalar_type() != g_NP.scalar_type()) return put(into, at::mm(g_NP.t(), a_ND), add);
  if (add)
    into.addmm_(g_NP.t(), a_ND);
  else
    at::mm_out(into, g_NP.t(), a_ND);
}

void add(const LinearGrad& grad, GradientSink& sink) {
  const auto g_NP = grad.g_BTP.reshape({-1, grad.g_BTP.size(-1)});
  if (grad.weight != nullptr) {
    const auto& weight = *grad.weight;
    auto rows = sink.buffer(weight).view({weight.shape()[0], -1}).narrow(0, grad.row, g_NP.size(1));
    put_product(rows, g_NP, grad.a_BTD.reshape({-1, grad.a_BTD.size(-1)}), sink.written(weight));
    if (grad.last) sink.mark_written(weight);
  }
  if (grad.bias != nullptr) {
    put(sink.buffer(*grad.bias), g_NP.sum(0, false, wide(g_NP.scalar_type())), sink.written(*grad.bias));
    sink.mark_written(*grad.bias);
  }
}

void add(const EmbeddingGrad& grad, GradientSink& sink) {
  auto buffer = sink.buffer(*grad.table);
  if (!sink.written(*grad.table)) buffer.zero_();
  auto ids = grad.ids_BT.reshape({-1});
  auto g = grad.g_BTD.reshape({-1, grad.g_BTD.size(-1)});
  if (grad.padding >= 0) g = g.masked_fill((ids == grad.padding).unsqueeze(1), 0);
  buffer.index_add_(0, ids, g.to(buffer.scalar_type()));
  sink.mark_written(*grad.table);
}

void add(const ScaleShiftGrad& grad, GradientSink& sink) {
  if (grad.scale != nullptr) {
    put(sink.buffer(*grad.scale), over_samples(grad.xhat_BTD * grad.g_BTD), sink.written(*grad.scale));
    sink.mark_written(*grad.scale);
  }
  if (grad.shift != nullptr) {
    put(sink.buffer(*grad.shift), over_samples(grad.g_BTD), sink.written(*grad.shift));
    sink.mark_written(*grad.shift);
  }
}

void add(const AddedGrad& grad, GradientSink& sink) {
  put(sink.buffer(*grad.added), grad.g_BTD.sum(0, false, wide(grad.g_BTD.scalar_type())), sink.written(*grad.added));
  sink.mark_written(*grad.added);
}

// What a rule gave, if it is a tensor of the expected shape for each weight.
std::vector<at::Tensor> expected(const OwnGrad& grad, std::vector<at::Tensor> given, bool of_samples) {
  const auto weights = grad.rule->weights();
  SHADE_REQUIRE(given.size() == weights.size(), "the rule of an own layer gave ", given.size(), " gradients for ",
                weights.size(), " weights, the first of them ", weights.front()->name(), "; expected one for each");
  for (size_t i = 0; i < weights.size(); ++i) {
    auto shape = weights[i]->shape();
    if (of_samples) shape.insert(shape.begin(), grad.g_B.size(0));
    SHADE_REQUIRE(given[i].defined() && given[i].sizes() == at::IntArrayRef(shape), "weight ", weights[i]->name(),
                  ": the rule of its layer gave a gradient of shape ",
                  given[i].defined() ? given[i].sizes() : at::IntArrayRef(), "; expected ", at::IntArrayRef(shape),
                  of_samples ? ", samples first" : "");
  }
  return given;
}

void put_all(const std::vector<const Weight*>& weights, const std::vector<at::Tensor>& sums, GradientSink& sink) {
  for (size_t i = 0; i < weights.size(); ++i) {
    put(sink.buffer(*weights[i]), sums[i], sink.written(*weights[i]));
    sink.mark_written(*weights[i]);
  }
}

void add(const OwnGrad& grad, GradientSink& sink) {
  put_all(grad.rule->weights(), expected(grad, grad.rule->sums(), /*of_samples=*/false), sink);
}

}  // namespace

std::vector<at::Tensor> sample_gradients(const OwnGrad& grad) {
  return expected(grad, grad.rule->sample_gradients(), /*of_samples=*/true);
}

std::vector<at::Tensor> LayerRule::sums() const {
  auto out = sample_gradients();
  for (auto& sum : out) sum = sum.sum(0, false, wide(sum.scalar_type()));
  return out;
}

void add_gradient(const LayerGrad& grad, GradientSink& sink) {
  const at::NoGradGuard no_graph;
  std::visit([&](const auto& kind) { add(kind, sink); }, grad);
}

at::Tensor PlainGradients::buffer(const Weight& weight) {
  auto& buffer = buffers_[weight.id()];
  if (!buffer.defined()) {
    auto options = weight.value().options();
    buffer = at::empty(weight.shape(), dtype_ ? options.dtype(*dtype_) : options);
  }
  return buffer;
}

const at::Tensor& PlainGradients::of(const Weight& weight) const {
  SHADE_REQUIRE(written(weight), "weight ", weight.name(), " got no gradient: backward never reached its layer");
  return buffers_.at(weight.id());
}

void PlainGradients::clear() { written_.clear(); }

}  // namespace shade::nn
