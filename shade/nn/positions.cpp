#include "shade/nn/positions.h"

#include <cmath>

namespace shade::nn {

double sincos_position(int64_t index, int64_t grid, int64_t width) {
  const auto patch = index / width, column = index % width, half = width / 2, quarter = width / 4;
  const auto place = column < half ? patch % grid : patch / grid;
  const auto within = column % half;
  const double frequency = std::pow(10000.0, -static_cast<double>(within % quarter) / static_cast<double>(quarter));
  const double angle = static_cast<double>(place) * frequency;
  return within < quarter ? std::sin(angle) : std::cos(angle);
}

}  // namespace shade::nn
