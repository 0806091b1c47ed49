#include "shade/nn/gradients.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "shade/base/error.h"
#include "shade/nn/function.h"
#include "shade/nn/launches.h"
#include "shade/nn/wide_product.h"

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

// Rows of a sample count as often as it does.
at::Tensor rows_of(const at::Tensor& c_B, int64_t positions, at::ScalarType type) {
  return c_B.to(type).repeat_interleave(positions).unsqueeze(1);
}

// into (+)= (c g)^T a. An accelerator multiplies narrow numbers faster than wide ones: there the weighted factor is
// three of them, which together have all of its 24 bits, and the sums are wide. Two would have 16: where positions
// cancel to less than 1/256, what they leave out is more than the margin that clipping keeps.
void put_in_parts(at::Tensor into, const at::Tensor& scaled_NP, const at::Tensor& a_ND, bool add) {
  const auto width = scaled_NP.size(1);
  const auto parts = at::empty({scaled_NP.size(0), 3 * width}, a_ND.options());
  const auto part = [&](int64_t i) { return parts.narrow(1, i * width, width); };
  auto rest = scaled_NP - part(0).copy_(scaled_NP), last = part(2);
  at::sub_out(last, rest, part(1).copy_(rest));
  const auto sums_3PD = wide_matmul(parts.t(), a_ND).view({3, width, a_ND.size(1)});
  if (add)
    into.add_(sums_3PD.sum(0));
  else
    at::sum_out(into, sums_3PD, 0, false, into.scalar_type());
}

// The product is made in the buffer's type, some rows at a time.
void add_narrow(const LinearGrad& grad, const at::Tensor& c_B, GradientSink& sink) {
  const auto g_NP = grad.g_BTP.reshape({-1, grad.g_BTP.size(-1)}), a_ND = grad.a_BTD.reshape({-1, grad.a_BTD.size(-1)});
  const auto type = wide(g_NP.scalar_type());
  if (grad.bias != nullptr) {
    put(sink.buffer(*grad.bias), over_samples(grad.g_BTP.to(type) * c_B.to(type).view({-1, 1, 1})),
        sink.written(*grad.bias));
    sink.mark_written(*grad.bias);
  }
  if (grad.weight == nullptr) return;
  const auto& weight = *grad.weight;
  auto into = sink.buffer(weight).view({weight.shape()[0], -1}).narrow(0, grad.row, g_NP.size(1));
  if (few_launches(g_NP)) {
    put_in_parts(into, (grad.g_BTP * c_B.to(type).view({-1, 1, 1})).reshape(g_NP.sizes()), a_ND, sink.written(weight));
  } else {
    if (!sink.written(weight)) into.zero_();
    const auto c_N1 = rows_of(c_B, grad.g_BTP.size(1), type);
    constexpr int64_t kRows = 1024;
    for (int64_t row = 0; row < g_NP.size(0); row += kRows) {
      const auto rows = std::min(kRows, g_NP.size(0) - row);
      const auto g = g_NP.narrow(0, row, rows).to(type), a = a_ND.narrow(0, row, rows).to(type);
      into.addmm_((g * c_N1.narrow(0, row, rows)).t().to(into.scalar_type()), a.to(into.scalar_type()));
    }
  }
  if (grad.last) sink.mark_written(weight);
}

void add_weighted(const LinearGrad& grad, const at::Tensor& c_B, GradientSink& sink) {
  const auto own = grad.g_BTP.scalar_type();
  if (own != wide(own)) return add_narrow(grad, c_B, sink);
  auto scaled = grad;
  auto& smaller = grad.bias == nullptr && grad.a_BTD.size(2) < grad.g_BTP.size(2) ? scaled.a_BTD : scaled.g_BTP;
  smaller = smaller * c_B.to(own).view({-1, 1, 1});
  add(scaled, sink);
}

// The others are as large as an activation: weighted as a whole, in a wide type.
template <class Grad>
void add_weighted(Grad grad, const at::Tensor& c_B, GradientSink& sink) {
  const auto type = wide(grad.g_BTD.scalar_type());
  grad.g_BTD = grad.g_BTD.to(type) * c_B.to(type).view({-1, 1, 1});
  add(grad, sink);
}

void add_weighted(const OwnGrad& grad, const at::Tensor& c_B, GradientSink& sink) {
  auto sums = sample_gradients(grad);
  for (auto& sum : sums) {
    const auto type = wide(sum.scalar_type());
    sum = at::mv(sum.flatten(1).to(type).t(), c_B.to(type)).view(sum.sizes().slice(1));
  }
  put_all(grad.rule->weights(), sums, sink);
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

void add_gradient(const LayerGrad& grad, const at::Tensor& c_B, GradientSink& sink) {
  const at::NoGradGuard no_graph;
  std::visit([&](const auto& kind) { add_weighted(kind, c_B, sink); }, grad);
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
