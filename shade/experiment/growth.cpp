#include "shade/experiment/growth.h"

#include <algorithm>
#include <cmath>

#include "shade/base/error.h"

namespace shade::experiment {
namespace {

// Student's t, 97.5 %, by degrees of freedom.
double student(size_t freedom) {
  static constexpr double kTable[] = {12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23};
  return freedom == 0 ? 0 : freedom <= 10 ? kTable[freedom - 1] : 1.96;
}

}  // namespace

Growth fit_growth(const std::vector<std::pair<double, double>>& points) {
  SHADE_REQUIRE(points.size() >= 2, "a growth needs at least two lengths, found ", points.size());
  const auto count = static_cast<double>(points.size());
  double mean_x = 0, mean_y = 0;
  for (const auto& [x, y] : points) {
    SHADE_REQUIRE(x > 0 && y > 0, "a growth is fitted to positive numbers, found ", y, " at ", x);
    mean_x += std::log(x) / count;
    mean_y += std::log(y) / count;
  }
  double xx = 0, xy = 0;
  for (const auto& [x, y] : points) {
    xx += std::pow(std::log(x) - mean_x, 2);
    xy += (std::log(x) - mean_x) * (std::log(y) - mean_y);
  }
  Growth out{.exponent = xy / xx};
  double residual = 0;
  for (const auto& [x, y] : points)
    residual += std::pow(std::log(y) - mean_y - out.exponent * (std::log(x) - mean_x), 2);
  const auto freedom = points.size() - 2;
  const double error = freedom == 0 ? 0 : std::sqrt(residual / static_cast<double>(freedom) / xx) * student(freedom);
  out.low = out.exponent - error;
  out.high = out.exponent + error;
  out.verdict = out.exponent < 0.5    ? "constant"
                : out.exponent < 1.35 ? "O(T)"
                : out.exponent < 1.65 ? "between O(T) and O(T^2)"
                                      : "O(T^2)";
  return out;
}

}  // namespace shade::experiment
