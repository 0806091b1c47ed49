#include "shade/privacy/clip/method.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "shade/base/error.h"
#include "shade/base/span.h"
#include "shade/nn/function.h"
#include "shade/privacy/clip/one_pass.h"
#include "shade/privacy/clip/two_pass.h"

namespace shade::privacy {
namespace {

using enum MethodName;

constexpr MethodRow kRows[] = {
    {.name = none},
    {.name = materialize, .keep = Keep::gradients},
    {.name = ghost, .passes = 2, .norm = NormAlgorithm::gram},
    {.name = flash, .passes = 2, .norm = NormAlgorithm::instantiate},
    {.name = bookkeeping, .norm = NormAlgorithm::gram, .keep = Keep::books},
    {.name = flash_bookkeeping, .norm = NormAlgorithm::instantiate, .keep = Keep::books},
    {.name = streaming, .keep = Keep::gradients, .micro_batch = 1},
    {.name = automatic, .keep = Keep::books, .choose = true},
};

// `none`: samples are summed as they are.
class PlainSum : public Method {
 public:
  explicit PlainSum(nn::GradientSink& sink) : sink_(&sink) {}

  std::span<const MethodPass> passes() const override {
    static constexpr MethodPass kPasses[] = {{.gradients = true, .last = true}};
    return kPasses;
  }
  at::Tensor objective(const at::Tensor& losses_B, size_t) override { return losses_B.sum(); }
  void take(nn::LayerGrad grad) override { nn::add_gradient(grad, *sink_); }

 private:
  nn::GradientSink* sink_;
};

}  // namespace

const MethodRow& row_of(MethodName name) {
  for (const auto& row : kRows)
    if (row.name == name) return row;
  SHADE_CHECK(false, "no clipping method of this name");
  return kRows[0];
}

ClipCounts Method::drain_counts() {
  const auto counted = drain_counted();
  if (!counted.defined() || counted.is_meta()) return {};
  const auto here = counted.cpu();
  const auto whole = [&](int64_t i) { return std::llround(here[i].item<double>()); };
  return {.samples = whole(0), .clipped = whole(1), .not_finite = whole(2), .below = here[3].item<double>()};
}

ClippingMethod::ClippingMethod(const MethodRow& row, const MethodSetup& setup, const ClipOptions& options)
    : sink_(&setup.sink),
      options_(options),
      row_(row),
      clipper_(setup.parameters, setup.event, options),
      norms_(setup.parameters, clipper_) {
  if (options.norm_algorithm != NormAlgorithm::automatic) row_.norm = options.norm_algorithm;
}

void ClippingMethod::begin(int64_t samples, int64_t blank) {
  SHADE_CHECK(blank >= 0 && blank <= samples, blank, " blank samples of ", samples);
  norms_.begin(samples);
  blank_ = blank;
  coefficients_.assign(clipper_.groups(), {});
  bad_B_.reset();
}

at::Tensor ClippingMethod::objective(const at::Tensor& losses_B, size_t) {
  SHADE_REQUIRE(losses_B.dim() == 1 && losses_B.size(0) == norms_.samples(), "the model gave losses of shape ",
                losses_B.sizes(), " for ", norms_.samples(), " samples; private training needs one loss per sample");
  bad_B_ = at::isfinite(losses_B.detach()).logical_not_();
  bad_B_.narrow(0, present(), blank_).fill_(true);
  return losses_B.sum();
}

const at::Tensor& ClippingMethod::coefficients(size_t group) {
  auto& c_B = coefficients_[group];
  const Span span("coefficients");
  if (c_B.defined()) return c_B;
  norms_.require_complete(group);
  return c_B = clipper_.coefficients(norms_.squares(group), norms_.factors(group)).masked_fill_(bad_B_, 0);
}

void ClippingMethod::count() {
  const auto of_present = [&](const at::Tensor& x_B) { return x_B.narrow(0, 0, present()); };
  if (recording_) {
    recorded_.push_back({of_present(norms_.total()), {}});
    for (const auto& [id, squares_B] : norms_.by_weight()) recorded_.back().by_weight[id] = of_present(squares_B);
  }
  if (present() == 0) return;
  const auto squares = of_present(norms_.total().masked_fill(bad_B_, std::numeric_limits<double>::infinity()));
  const auto finite = at::isfinite(squares);
  const auto below = (squares.sqrt() <= clipper_.clip_norm()) & finite;
  const auto good = finite.sum(at::kDouble), low = below.sum(at::kDouble);
  const auto all = static_cast<double>(present());
  const auto counted = at::stack({at::full_like(good, all), good - low, all - good, low - 0.5 * all});
  counted_ = counted_.defined() ? counted_.add_(counted) : counted;
}

void ClippingMethod::add_clipped(const nn::LayerGrad& grad, const at::Tensor& c_B) {
  const auto left_out = c_B == 0;
  if (!left_out.any().item<bool>()) return nn::add_gradient(grad, c_B, *sink_);
  nn::add_gradient(blanked(grad, left_out), c_B, *sink_);
}

void ClippingMethod::add_clipped(const SampleGradients& kept, const at::Tensor& c_B) {
  const auto left_out = c_B == 0;
  const auto grad = left_out.any().item<bool>() ? blanked(kept, left_out) : kept;
  auto buffer = sink_->buffer(*grad.weight);
  const auto& gradients_B = grad.gradients_B;
  const auto flat_BN = gradients_B.flatten(1);
  auto rows = buffer.view({buffer.size(0), -1});
  if (gradients_B.dim() > 2) rows = rows.narrow(0, grad.row, gradients_B.size(1));  // else the whole of a vector
  auto into = rows.view({-1});
  const auto c = c_B.to(into.scalar_type());
  const bool add = sink_->written(*grad.weight);
  if (into.scalar_type() != flat_BN.scalar_type()) {
    // Multiplied and summed in the buffer's type, some columns at a time.
    constexpr int64_t kColumns = int64_t{1} << 16;
    if (!add) into.zero_();
    for (int64_t at = 0; at < into.numel(); at += kColumns) {
      const auto columns = std::min(kColumns, into.numel() - at);
      into.narrow(0, at, columns).addmv_(flat_BN.narrow(1, at, columns).to(into.scalar_type()).t(), c);
    }
  } else if (flat_BN.size(0) == 1 && !add) {
    at::mul_out(into, flat_BN[0], c);
  } else {
    add ? into.addmv_(flat_BN.t(), c) : at::mv_out(into, flat_BN.t(), c);
  }
  if (grad.last) sink_->mark_written(*grad.weight);
}

// The bindings name every field, so that a new one doesn't compile before it is here.
Json ClippingMethod::settings() const {
  const auto& [name, passes, norm, keep, micro_batch, choose] = row_;
  return {{"name", to_string(name)},        {"passes", passes},           {"norm", to_string(norm)},
          {"keep", static_cast<int>(keep)}, {"micro_batch", micro_batch}, {"choose", choose}};
}

MakeMethod method_of(MethodName name, const ClipOptions& options) {
  return [row = row_of(name), options](const MethodSetup& setup) -> std::unique_ptr<Method> {
    if (row.name == none) return std::make_unique<PlainSum>(setup.sink);
    if (row.passes == 2) return std::make_unique<TwoPass>(row, setup, options);
    return std::make_unique<OnePass>(row, setup, options);
  };
}

}  // namespace shade::privacy
