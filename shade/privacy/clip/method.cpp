#include "shade/privacy/clip/method.h"

#include <ATen/ATen.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "shade/base/error.h"
#include "shade/base/json.h"
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

// Norms and sums are bounded by what products of fp32 can lose (privacy/norms/rounding.h).
void require_whole_products(at::Device device) {
  const auto& context = at::globalContext();
  const auto set = context.float32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL);
  bool whole = device.is_cpu() ? set == at::Float32Precision::NONE || set == at::Float32Precision::IEEE
                               : !context.allowTF32CuBLAS();
  for (const auto* name : {"ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE"})
    if (const auto* mode = std::getenv(name); device.is_cpu() && mode != nullptr)
      whole = whole && std::string_view(mode) == "STRICT";
  SHADE_REQUIRE(
      whole,
      "products of fp32 are rounded to TF32 or bf16 (TORCH_ALLOW_TF32_CUBLAS_OVERRIDE, "
      "ONEDNN_DEFAULT_FPMATH_MODE, or libtorch's precision of fp32 products), so norms would be wrong by more "
      "than the margin that clipping keeps; turn it off");
}

// `none`: samples are summed as they are.
class PlainSum : public Method {
 public:
  explicit PlainSum(nn::GradientSink& sink) : sink_(&sink) {}

  std::span<const MethodPass> passes() const override {
    static constexpr MethodPass kPasses[] = {{.gradients = true, .last = true}};
    return kPasses;
  }
  bool grows_with_positions() const override { return true; }
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
  require_whole_products(losses_B.device());
  bad_B_ = at::isfinite(losses_B.detach()).logical_not_();
  bad_B_.narrow(0, present(), blank_).fill_(true);
  return losses_B.sum();
}

const at::Tensor& ClippingMethod::coefficients(size_t group) {
  auto& c_B = coefficients_[group];
  const Span span(SpanName::coefficients);
  if (c_B.defined()) return c_B;
  norms_.require_complete(group);
  return c_B = clipper_.coefficients(norms_.squares(group)).masked_fill_(bad_B_, 0);
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
  const auto tally = at::stack({finite, below}).sum(1);
  tally_ = tally_.defined() ? tally_ + tally : tally;
  counted_ += present();
}

at::Tensor ClippingMethod::drain_counted() {
  const auto samples = static_cast<double>(std::exchange(counted_, 0));
  if (samples == 0) return {};
  const auto tally = std::exchange(tally_, {}).to(at::kDouble);
  const auto finite = tally[0], below = tally[1];
  return at::stack({at::full_like(finite, samples), finite - below, samples - finite, below - 0.5 * samples});
}

void ClippingMethod::add_clipped(const nn::LayerGrad& grad, const at::Tensor& c_B) {
  privacy::add_clipped(grad, weights(c_B), *sink_);
}

void ClippingMethod::add_clipped(const SampleGradients& grad, const at::Tensor& c_B) {
  privacy::add_clipped(grad, weights(c_B), *sink_);
}

// The bindings name every field, so that a new one doesn't compile before it is here.
std::string ClippingMethod::settings() const {
  const auto& [name, passes, norm, keep, micro_batch, choose] = row_;
  const Json out{{"name", to_string(name)},        {"passes", passes},           {"norm", to_string(norm)},
                 {"keep", static_cast<int>(keep)}, {"micro_batch", micro_batch}, {"choose", choose}};
  return out.dump();
}

MakeMethod method_of(MethodName name, const ClipOptions& options) {
  return [row = row_of(name), options](const MethodSetup& setup) -> std::unique_ptr<Method> {
    if (row.name == none) return std::make_unique<PlainSum>(setup.sink);
    if (row.passes == 2) return std::make_unique<TwoPass>(row, setup, options);
    return std::make_unique<OnePass>(row, setup, options);
  };
}

}  // namespace shade::privacy
