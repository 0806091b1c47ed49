#include "shade/nn/gradients.h"

#include <ATen/ATen.h>

#include <algorithm>

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

// into (+)= g^T a of narrower factors. A GPU multiplies them as they are and sums wide; a CPU widens some rows at a
// time.
void put_wide_product(at::Tensor into, const at::Tensor& g_NP, const at::Tensor& a_ND, bool add) {
  if (g_NP.is_cuda()) return put(into, at::mm(g_NP.t(), a_ND, into.scalar_type()), add);
  constexpr int64_t kRows = 1024;
  if (!add) into.zero_();
  for (int64_t row = 0; row < g_NP.size(0); row += kRows) {
    const auto rows = std::min(kRows, g_NP.size(0) - row);
    const auto widened = [&](const at::Tensor& x) { return x.narrow(0, row, rows).to(into.scalar_type()); };
    into.addmm_(widened(g_NP).t(), widened(a_ND));
  }
}

// into (+)= g^T a, without a temporary where the types agree.
void put_product(at::Tensor into, const at::Tensor& g_NP, const at::Tensor& a_ND, bool add, SumType type) {
  if (into.scalar_type() != g_NP.scalar_type())
    return type == SumType::buffer ? put_wide_product(into, g_NP, a_ND, add) : put(into, at::mm(g_NP.t(), a_ND), add);
  if (add)
    into.addmm_(g_NP.t(), a_ND);
  else
    at::mm_out(into, g_NP.t(), a_ND);
}

void add(const LinearGrad& grad, GradientSink& sink, SumType type) {
  const auto g_NP = grad.g_BTP.reshape({-1, grad.g_BTP.size(-1)});
  if (grad.weight != nullptr) {
    const auto& weight = *grad.weight;
    auto rows = sink.buffer(weight).view({weight.shape()[0], -1}).narrow(0, grad.row, g_NP.size(1));
    put_product(rows, g_NP, grad.a_BTD.reshape({-1, grad.a_BTD.size(-1)}), sink.written(weight), type);
    if (grad.last) sink.mark_written(weight);
  }
  if (grad.bias != nullptr) {
    put(sink.buffer(*grad.bias), g_NP.sum(0, false, wide(g_NP.scalar_type())), sink.written(*grad.bias));
    sink.mark_written(*grad.bias);
  }
}

void add(const EmbeddingGrad& grad, GradientSink& sink, SumType) {
  auto buffer = sink.buffer(*grad.table);
  if (!sink.written(*grad.table)) buffer.zero_();
  auto ids = grad.ids_BT.reshape({-1});
  auto g = grad.g_BTD.reshape({-1, grad.g_BTD.size(-1)});
  if (grad.padding >= 0) g = g.masked_fill((ids == grad.padding).unsqueeze(1), 0);
  buffer.index_add_(0, ids, g.to(buffer.scalar_type()));
  sink.mark_written(*grad.table);
}

void add(const ScaleShiftGrad& grad, GradientSink& sink, SumType) {
  const auto type = wide(grad.g_BTD.scalar_type());
  if (grad.scale != nullptr) {
    put(sink.buffer(*grad.scale), (grad.xhat_BTD * grad.g_BTD).sum({0, 1}, false, type), sink.written(*grad.scale));
    sink.mark_written(*grad.scale);
  }
  if (grad.shift != nullptr) {
    put(sink.buffer(*grad.shift), grad.g_BTD.sum({0, 1}, false, type), sink.written(*grad.shift));
    sink.mark_written(*grad.shift);
  }
}

void add(const AddedGrad& grad, GradientSink& sink, SumType) {
  put(sink.buffer(*grad.added), grad.g_BTD.sum(0, false, wide(grad.g_BTD.scalar_type())), sink.written(*grad.added));
  sink.mark_written(*grad.added);
}

}  // namespace

void add_gradient(const LayerGrad& grad, GradientSink& sink, SumType type) {
  const at::NoGradGuard no_graph;
  std::visit([&](const auto& kind) { add(kind, sink, type); }, grad);
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
