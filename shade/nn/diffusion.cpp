#include "shade/nn/diffusion.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

#include "shade/nn/activations.h"
#include "shade/nn/function.h"

namespace shade::nn {
namespace {

// What the bound needs of each timestep.
struct Tables {
  std::vector<double> low, high;  // log variances: of the posterior, of beta. At t = 0 the former is that of t = 1
  std::vector<double> shift;      // how far the mean is off for a unit of wrong noise

  explicit Tables(const DiffusionSchedule& schedule) {
    const auto& [beta, kept] = schedule;
    const auto before = [&](size_t t) { return t == 0 ? 1.0 : kept[t - 1]; };
    const auto posterior = [&](size_t t) { return beta[t] * (1 - before(t)) / (1 - kept[t]); };
    for (size_t t = 0; t < beta.size(); ++t) {
      low.push_back(std::log(posterior(std::max<size_t>(t, 1))));
      high.push_back(std::log(beta[t]));
      shift.push_back(beta[t] * std::sqrt(before(t)) / (1 - kept[t]) * std::sqrt(1 / kept[t] - 1));
    }
  }
};

// Rows of a table, one per sample, to be multiplied with images. Meta has no shape function for a lookup in C++.
at::Tensor rows(const std::vector<double>& table, const at::Tensor& timesteps_B, at::ScalarType type) {
  const std::vector<int64_t> shape{timesteps_B.size(0), 1, 1, 1};
  if (timesteps_B.is_meta()) return at::empty(shape, timesteps_B.options().dtype(type));
  return on_device(at::tensor(table, at::kDouble), timesteps_B.device())
      .index_select(0, timesteps_B)
      .to(type)
      .view(shape);
}

// The normal distribution function by tanh, as published; as a sigmoid it keeps its digits in the lower tail.
at::Tensor distribution(const at::Tensor& x) {
  return sigmoid_activation(2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x));
}

// -log P(image's level): pixels from -1 to 1 in steps of 2 / 255, the outermost levels reach to infinity. By symmetry
// the inner ones are differences in the lower tail, where they don't cancel. abs, where and the backward of clamp have
// no shape function in C++ and can't be used, for dry runs on meta.
at::Tensor level_losses(const at::Tensor& image, const at::Tensor& error, const at::Tensor& log_variance) {
  constexpr double kHalf = 1.0 / 255;
  const auto precision = (-0.5 * log_variance).exp();
  const auto type = image.scalar_type();
  const auto below = (image < -0.999).to(type), above = (image > 0.999).to(type);
  const auto off = at::maximum(error, -error);
  const auto inner = distribution((kHalf - off) * precision) - distribution((-kHalf - off) * precision);
  const auto share = below * distribution((error + kHalf) * precision) +
                     above * distribution((kHalf - error) * precision) + (1 - below - above) * inner;
  return -at::threshold(share, 1e-12, 1e-12).log();
}

}  // namespace

DiffusionSchedule::DiffusionSchedule(int64_t steps) {
  double product = 1;
  for (int64_t t = 0; t < steps; ++t) {
    const double share = steps == 1 ? 0 : static_cast<double>(t) / static_cast<double>(steps - 1);
    beta.push_back(1e-4 + share * (0.02 - 1e-4));
    product *= 1 - beta.back();
    kept.push_back(product);
  }
}

at::Tensor variational_losses(const at::Tensor& predicted_noise_BCHW, const at::Tensor& fraction_BCHW,
                              const Batch& batch) {
  static const DiffusionSchedule schedule;
  static const Tables tables(schedule);
  const auto type = wide(fraction_BCHW.scalar_type());
  const auto noise = batch.noise_BCHW.to(type);
  const auto low = rows(tables.low, batch.timesteps_B, type), high = rows(tables.high, batch.timesteps_B, type);
  const auto error = (predicted_noise_BCHW.detach().to(type) - noise) * rows(tables.shift, batch.timesteps_B, type);
  const auto log_variance = low + (fraction_BCHW.to(type) + 1) * 0.5 * (high - low);
  const auto divergence =
      0.5 * (log_variance - low - 1 + (low - log_variance).exp() + error.square() * (-log_variance).exp());
  // Other samples than those at t = 0 take part in the levels with harmless numbers, so that they stay finite.
  const auto first = (batch.timesteps_B == 0).to(type).view({-1, 1, 1, 1});
  const double kept = schedule.kept.front();
  const auto image = batch.images_BCHW.to(type) / std::sqrt(kept) - noise * std::sqrt(1 / kept - 1);
  const auto levels = level_losses(image, error * first, log_variance * first);
  return (divergence * (1 - first) + levels * first).flatten(1).mean(1) / std::numbers::ln2;
}

}  // namespace shade::nn
