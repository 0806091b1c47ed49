#include "shade/proof/differences.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>

namespace shade::proof {
namespace {

// Rounding costs 1e-16 / h and curvature h^2: far below the mark both.
constexpr double kStep = 1e-6;

double loss_of(models::Model& model, const std::vector<nn::Batch>& records) {
  const at::NoGradGuard no_graph;
  double out = 0;
  for (const auto& record : records) out += model.losses(record).sum().item<double>();
  return out / static_cast<double>(records.size());
}

using Direction = std::map<nn::WeightId, at::Tensor>;

void move(nn::Parameters& parameters, const Direction& direction, double by) {
  const at::NoGradGuard no_graph;
  for (auto& weight : parameters.weights())
    if (weight.trainable()) at::Tensor(weight.value()).add_(direction.at(weight.id()), by);
}

}  // namespace

double largest_difference(Reference& reference, const nn::Batch& batch, const DifferenceOptions& options) {
  auto& model = reference.model();
  auto& parameters = model.parameters();
  auto generator = at::make_generator<at::CPUGeneratorImpl>(options.seed);
  double worst = 0;
  for (int64_t sample = 0; sample < batch.samples(); ++sample) {
    const auto records = records_of(in_type(batch, at::kDouble), sample);
    const auto gradient = reference.gradient(batch, sample);
    if (!gradient.finite()) continue;
    for (int i = 0; i < options.directions; ++i) {
      Direction direction;
      double slope = 0;
      for (const auto& [id, part] : gradient.parts) {
        direction[id] = at::randn(part.sizes(), generator, at::kDouble);
        slope += (part * direction[id]).sum().item<double>();
      }
      move(parameters, direction, kStep);
      const double ahead = loss_of(model, records);
      move(parameters, direction, -2 * kStep);
      const double behind = loss_of(model, records);
      move(parameters, direction, kStep);
      const double found = (ahead - behind) / (2 * kStep);
      const double off = std::abs(found - slope) / std::max(std::sqrt(gradient.square()), 1e-3);
      worst = std::max(worst, std::isfinite(off) ? off : INFINITY);
    }
  }
  return worst;
}

}  // namespace shade::proof
