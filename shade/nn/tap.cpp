#include "shade/nn/tap.h"

#include <ATen/ATen.h>

#include "shade/nn/function.h"

namespace shade::nn {
namespace {

// [B, T, ...] -> [B / rows, rows T, ...]
void join_rows(at::Tensor& x, int64_t rows) {
  if (!x.defined()) return;
  auto shape = x.sizes().vec();
  shape[0] /= rows;
  shape[1] *= rows;
  x = x.reshape(shape);
}

// [B, ...] -> [B / rows, ...], summed in fp32 at least.
at::Tensor sum_rows(const at::Tensor& x, int64_t rows) {
  return x.unflatten(0, {x.size(0) / rows, rows}).sum(1, false, wide(x.scalar_type()));
}

// An own layer's gradients of samples, from those of rows.
class SummedRows : public LayerRule {
 public:
  SummedRows(std::shared_ptr<const LayerRule> rule, int64_t rows) : rule_(std::move(rule)), rows_(rows) {}

  std::vector<const Weight*> weights() const override { return rule_->weights(); }
  std::vector<at::Tensor> sample_gradients() const override {
    auto out = rule_->sample_gradients();
    for (auto& gradients_B : out)
      if (gradients_B.defined() && gradients_B.dim() > 0 && gradients_B.size(0) % rows_ == 0)
        gradients_B = sum_rows(gradients_B, rows_);
    return out;
  }
  std::vector<at::Tensor> sums() const override { return rule_->sums(); }

 private:
  std::shared_ptr<const LayerRule> rule_;
  int64_t rows_;
};

struct BySample {
  int64_t rows;

  bool divides(const at::Tensor& g, int64_t dims) const { return g.dim() >= dims && g.size(0) % rows == 0; }

  void operator()(LinearGrad& grad) const {
    if (!divides(grad.g_BTP, 2)) return;
    for (auto* x : {&grad.a_BTD, &grad.g_BTP, &grad.looked_up_BT}) join_rows(*x, rows);
  }
  void operator()(EmbeddingGrad& grad) const {
    if (!divides(grad.g_BTD, 2)) return;
    for (auto* x : {&grad.ids_BT, &grad.g_BTD}) join_rows(*x, rows);
  }
  void operator()(ScaleShiftGrad& grad) const {
    if (!divides(grad.g_BTD, 2)) return;
    for (auto* x : {&grad.xhat_BTD, &grad.g_BTD}) join_rows(*x, rows);
  }
  void operator()(AddedGrad& grad) const {
    if (divides(grad.g_BTD, 1)) grad.g_BTD = sum_rows(grad.g_BTD, rows);
  }
  void operator()(OwnGrad& grad) const {
    if (!divides(grad.g_B, 1)) return;
    grad.g_B = grad.g_B.unflatten(0, {grad.g_B.size(0) / rows, rows});
    grad.rule = std::make_shared<SummedRows>(grad.rule, rows);
  }
};

}  // namespace

LayerGrad by_sample(LayerGrad grad, int64_t rows) {
  const at::NoGradGuard no_graph;
  std::visit(BySample{rows}, grad);
  return grad;
}

}  // namespace shade::nn
