#include "shade/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace shade::optim {

double Schedule::learning_rate(int64_t step) const {
  if (step < warmup) return peak * static_cast<double>(step) / static_cast<double>(warmup);
  if (shape == Shape::constant) return peak;
  if (step >= total) return 0;
  const double left = static_cast<double>(total - step) / static_cast<double>(total - warmup);  // from 1 to 0
  if (shape == Shape::linear) return peak * left;
  return peak * (1 - std::cos(std::numbers::pi * left)) / 2;
}

}  // namespace shade::optim
