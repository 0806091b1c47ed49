#include "shade/proof/reference.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "shade/base/error.h"
#include "shade/nn/function.h"
#include "shade/nn/gradients.h"

namespace shade::proof {
namespace {

at::Tensor in_fp64(const at::Tensor& gradient) { return gradient.detach().to(at::kDouble, false, /*copy=*/true); }

// The share of C that a step leaves unused, for rounding (docs/privacy.md, What one record can do).
double unused_share(const nn::Parameters& parameters) {
  return 1e-9 + std::sqrt(static_cast<double>(parameters.count_trainable())) / 8589934592.0;
}

// Weights that have a threshold together.
std::string group_of(const nn::Weight& weight, privacy::ClipStyle style) {
  switch (style) {
    case privacy::ClipStyle::per_layer: return weight.name().substr(0, weight.name().rfind('.'));
    case privacy::ClipStyle::group: return std::to_string(weight.unit());
    default: return "";
  }
}

}  // namespace

at::Tensor checked_value(const nn::Weight& weight, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed * 1000 + static_cast<uint64_t>(weight.id()));
  const bool constant = weight.init().kind == nn::Init::Kind::constant;
  const double spread = constant ? 0.1 : std::max(0.1, weight.init().value);
  return at::randn(weight.shape(), generator, at::kFloat).mul_(spread).add_(constant ? weight.init().value : 0);
}

nn::Batch in_type(const nn::Batch& batch, at::ScalarType type) {
  return batch.each([&](const at::Tensor& tensor) {
    const auto here = tensor.cpu();
    return here.is_floating_point() ? here.to(type) : here;
  });
}

std::vector<nn::Batch> records_of(const nn::Batch& batch, int64_t sample) {
  auto rows = batch;
  rows.rows_per_sample = 1;
  rows.present_B.reset();
  rows.records.clear();
  std::vector<nn::Batch> out;
  for (auto row = sample * batch.rows_per_sample; row < (sample + 1) * batch.rows_per_sample; ++row)
    if (!batch.present_B.defined() || batch.present_B[row].item<int64_t>() == 1) out.push_back(rows.rows(row, 1));
  return out;
}

double SampleGradient::square() const {
  double out = 0;
  for (const auto& [id, part] : parts) out += part.square().sum().item<double>();
  return out;
}

bool SampleGradient::finite() const { return std::isfinite(square()); }

Reference::Reference(std::unique_ptr<models::Model> model, nn::DType dtype, uint64_t seed)
    : model_(std::move(model)), compute_(dtype == nn::DType::bf16 ? at::kBFloat16 : at::kDouble) {
  for (auto& weight : model_->parameters().weights()) {
    const auto rounded = checked_value(weight, seed).to(nn::scalar_type(dtype));
    weight.bind(rounded.to(compute_).set_requires_grad(weight.trainable()));
  }
}

// False: some layer is no plain operator, and autograd doesn't see its weights.
bool Reference::by_autograd(const std::vector<nn::Batch>& records, SampleGradient& to) {
  std::vector<const nn::Weight*> trained;
  std::vector<at::Tensor> leaves;
  for (const auto& weight : model_->parameters().weights())
    if (weight.trainable()) {
      trained.push_back(&weight);
      leaves.push_back(weight.value());
    }
  const nn::PlainOperators plain;
  for (const auto& record : records) {
    const auto loss = model_->losses(record).sum() / static_cast<double>(records.size());
    if (!loss.requires_grad()) return false;
    const auto found = torch::autograd::grad({loss}, leaves, {}, false, false, /*allow_unused=*/true);
    for (size_t i = 0; i < trained.size(); ++i) {
      if (!found[i].defined()) return false;
      auto& part = to.parts[trained[i]->id()];
      part = part.defined() ? part + in_fp64(found[i]) : in_fp64(found[i]);
    }
  }
  return true;
}

void Reference::by_tap(const std::vector<nn::Batch>& records, SampleGradient& to) {
  auto& parameters = model_->parameters();
  nn::PlainGradients gradients(compute_ == at::kDouble ? at::kDouble : at::kFloat);
  {
    const auto off = c10::make_scope_exit([&] { parameters.wiring.tap = nullptr; });
    parameters.wiring.tap = &gradients;
    for (const auto& record : records)
      torch::autograd::backward({model_->losses(record).sum() / static_cast<double>(records.size())}, {});
  }
  to.parts.clear();
  for (const auto& weight : parameters.weights())
    if (weight.trainable()) to.parts[weight.id()] = in_fp64(gradients.of(weight));
}

SampleGradient Reference::gradient(std::vector<nn::Batch> records) {
  for (auto& record : records) record = in_type(record, compute_);
  SampleGradient out;
  if (source_ == Source::autograd && by_autograd(records, out)) return out;
  source_ = Source::tap;
  by_tap(records, out);
  return out;
}

std::map<nn::WeightId, double> ClipRule::factors(const nn::Parameters& parameters, const SampleGradient& sample) const {
  std::map<std::string, double> squares;
  for (const auto& weight : parameters.weights())
    if (weight.trainable())
      squares[group_of(weight, options.style)] += sample.parts.at(weight.id()).square().sum().item<double>();
  const bool finite = sample.finite();
  const double threshold = clip_norm * (1 - unused_share(parameters)) / std::sqrt(static_cast<double>(squares.size()));
  std::map<nn::WeightId, double> out;
  for (const auto& weight : parameters.weights()) {
    if (!weight.trainable()) continue;
    const double norm = std::sqrt(squares[group_of(weight, options.style)]);
    const double automatic = threshold / (norm + options.gamma), clipped = norm > threshold ? threshold / norm : 1.0;
    out[weight.id()] = !finite ? 0 : options.style == privacy::ClipStyle::automatic ? automatic : clipped;
  }
  return out;
}

// K groups of at most C / sqrt(K) each are C together, so the largest length is C in every style. The noisy count of
// adaptive clipping has sensitivity 1/2 and its own deviation; two Gaussian releases cost what one does whose
// 1 / sigma^2 is the sum of theirs.
double ClipRule::noise_deviation(double sigma) const {
  if (options.style != privacy::ClipStyle::adaptive) return sigma * clip_norm;
  const double of_count = 0.5 / options.count_sigma;
  return clip_norm / std::sqrt(1 / (sigma * sigma) - of_count * of_count);
}

double middle_norm(std::span<const SampleGradient> samples) {
  std::vector<double> norms;
  for (const auto& sample : samples)
    if (sample.finite()) norms.push_back(std::sqrt(sample.square()));
  SHADE_REQUIRE(!norms.empty(), "no rank has a sample to check gradients with; make batches of one sample or more");
  std::sort(norms.begin(), norms.end());
  return norms[norms.size() / 2] * 0.9;
}

ExpectedSum expected_sum(const nn::Parameters& parameters, std::span<const SampleGradient> samples,
                         const ClipRule& rule, int ranks) {
  ExpectedSum out;
  out.norms.resize(static_cast<size_t>(ranks));
  out.by_weight.resize(static_cast<size_t>(ranks));
  for (const auto& weight : parameters.weights())
    if (weight.trainable()) out.sum[weight.id()] = at::zeros(weight.shape(), at::kDouble);
  for (const auto& sample : samples) {
    const auto factor = rule.factors(parameters, sample);
    const bool finite = sample.finite();
    for (const auto& [id, part] : sample.parts) {
      out.by_weight[static_cast<size_t>(sample.rank)][id].push_back(part.square().sum().item<double>());
      if (finite) out.sum[id] += part * factor.at(id);
    }
    out.norms[static_cast<size_t>(sample.rank)].push_back(std::sqrt(sample.square()));
  }
  return out;
}

}  // namespace shade::proof
