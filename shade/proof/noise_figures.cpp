#include "shade/proof/noise_figures.h"

#include <ATen/ATen.h>

#include <cmath>

namespace shade::proof {
namespace {

constexpr double kErrors = 5;

}  // namespace

void NoiseFigures::add(const at::Tensor& noise) {
  const auto units = noise.to(at::kDouble) / deviation_;
  count_ += static_cast<double>(units.numel());
  sum_ += units.sum().item<double>();
  squares_ += units.square().sum().item<double>();
}

double NoiseFigures::ratio() const { return std::sqrt(squares_ / count_); }

bool NoiseFigures::plausible() const {
  return std::abs(ratio() - 1) <= kErrors / std::sqrt(2 * count_) &&
         std::abs(sum_ / count_) <= kErrors / std::sqrt(count_);
}

}  // namespace shade::proof
