#include "shade/privacy/clip/two_pass.h"

#include <ATen/ATen.h>

#include "shade/base/error.h"
#include "shade/base/execution.h"
#include "shade/base/parallel.h"
#include "shade/hash/content_hash.h"
#include "shade/nn/launches.h"
#include "shade/privacy/norms/rounding.h"

namespace shade::privacy {
namespace {

// By what share the squared norm of an own layer's gradients may exceed what the first pass measured, or the layer
// said: its own formula may be rounded otherwise, random numbers change more.
constexpr double kMeasured = 1e-9, kSaid = 1e-3;

// Mixes type, shape and bits of each sample of a tensor [B, ...], or that there is none, into the fingerprints [B].
void mix_in(const at::Tensor& factor_B, const nn::Weight& weight, at::Tensor& prints_B) {
  const auto samples = prints_B.numel();
  auto* const prints = prints_B.data_ptr<int64_t>();
  if (!factor_B.defined()) {
    for (auto i = samples; i-- > 0;) ++prints[i];
    return;
  }
  SHADE_REQUIRE(factor_B.size(0) == samples, "weight ", weight.name(), ": its layer reports a factor of shape ",
                factor_B.sizes(), ", but the batch has ", samples, " samples; keep the sample as the first dimension");
  const auto factor = factor_B.contiguous();
  if (factor.is_meta())
    return say_skipped({.name = "fingerprint",
                        .element_size = static_cast<int64_t>(factor.element_size()),
                        .read = static_cast<double>(factor.nbytes())});
  const auto* const bytes = static_cast<const std::byte*>(factor.const_data_ptr());
  const auto size = factor.nbytes() / static_cast<size_t>(std::max<int64_t>(1, samples));
  std::vector<int64_t> form(factor.sizes().begin(), factor.sizes().end());
  form.push_back(static_cast<int64_t>(factor.scalar_type()));
  const auto of_form = hash::content_hash(std::as_bytes(std::span(form)))[0];
  parallel_for(0, samples, 1, [&](int64_t from, int64_t to) {
    for (auto i = from; i < to; ++i) {
      const auto of_bits = hash::content_hash({bytes + static_cast<size_t>(i) * size, size});
      const uint64_t words[] = {static_cast<uint64_t>(prints[i]), of_form, of_bits[0], of_bits[1]};
      prints[i] = static_cast<int64_t>(hash::content_hash(std::as_bytes(std::span(words)))[0]);
    }
  });
}

}  // namespace

// Of every factor that norms and sums are made of.
TwoPass::Report TwoPass::report_of(const nn::LayerGrad& grad) const {
  Report out{.weights = weights_of(grad), .prints_B = at::zeros({norms_.samples()}, at::kLong)};
  const auto& weight = *out.weights.front();
  for_each_tensor(grad, [&](const at::Tensor& factor) { mix_in(factor, weight, out.prints_B); });
  if (const auto* linear = std::get_if<nn::LinearGrad>(&grad)) {
    mix_in(linear->looked_up_BT, weight, out.prints_B);
    out.settings = {linear->row, linear->last ? 1 : 0};
  }
  if (const auto* lookup = std::get_if<nn::EmbeddingGrad>(&grad)) {
    mix_in(lookup->ids_BT, weight, out.prints_B);
    out.settings = {lookup->padding};
  }
  return out;
}

std::span<const MethodPass> TwoPass::passes() const {
  static constexpr MethodPass kPasses[] = {{.gradients = false, .last = false}, {.gradients = true, .last = true}};
  return kPasses;
}

at::Tensor TwoPass::objective(const at::Tensor& losses_B, size_t pass) {
  first_ = pass == 0;
  next_ = 0;
  if (first_) reports_.clear();
  if (first_) return ClippingMethod::objective(losses_B, pass);
  norms_.require_complete();
  count();
  return losses_B.sum();
}

at::Tensor TwoPass::agreed(const nn::Weight& weight, const at::Tensor& agrees_B, const at::Tensor& c_B) const {
  if (nn::few_launches(c_B)) return c_B.masked_fill(agrees_B.logical_not(), 0);
  SHADE_REQUIRE(c_B.is_meta() || agrees_B.logical_or(c_B == 0).all().item<bool>(), "weight ", weight.name(),
                ": the second backward pass of a clipping method gave other gradients than the first, whose norms "
                "don't bound them; a layer draws random numbers in a forward that is computed again, or a kernel "
                "rounds by where its operands lie. Draw random numbers with the batch, or use a method of one pass "
                "(--dp auto)");
  return c_B;
}

void TwoPass::finish() {
  SHADE_REQUIRE(next_ == reports_.size(), "weight ", reports_[next_].weights.front()->name(),
                " was reported by the first backward pass and not by the second; a forward must use the same layers "
                "each time");
}

void TwoPass::take(nn::LayerGrad grad) {
  const at::NoGradGuard no_graph;
  const bool compares = !nn::few_launches(output_gradient(grad));
  if (first_) {
    norms_.admit(grad);
    if (compares) reports_.push_back(report_of(grad));
    add_norms(grad, {.algorithm = row_.norm, .tile = options_.tile_size, .workspace = options_.workspace}, norms_);
    return;
  }
  // Each layer's sum is weighed on its own, the gradient passed on is not: groups may differ, a sample that is not
  // finite can be left out, and what is rounded is what the first pass measured.
  const auto& weight = *weights_of(grad).front();
  auto c_B = coefficients(clipper_.group_of(weight));
  if (compares) {
    const auto report = report_of(grad);
    SHADE_REQUIRE(next_ < reports_.size() && report.weights == reports_[next_].weights &&
                      report.settings == reports_[next_].settings,
                  "weight ", weight.name(),
                  " was reported by the second backward pass where the first reported another, or nothing; a forward "
                  "must use the same layers each time");
    c_B = agreed(weight, report.prints_B == reports_[next_++].prints_B, c_B);
  }
  const auto* own = std::get_if<nn::OwnGrad>(&grad);
  if (own == nullptr) return add_clipped(grad, c_B);
  const double more = own->rule->squares().empty() ? kMeasured : kSaid;
  for (const auto& each : own_gradients(*own)) {
    const auto first_B = norms_.by_weight().at(each.weight->id()).to(at::kDouble);
    const auto second_B = squares_of(each.gradients_B);
    const auto mine_B = agreed(*each.weight, second_B <= first_B * (1 + more), c_B);
    add_clipped(each, at::where(second_B > first_B, mine_B * (first_B / second_B).sqrt(), mine_B));
  }
}

}  // namespace shade::privacy
