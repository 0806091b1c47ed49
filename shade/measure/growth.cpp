#include "shade/measure/growth.h"

#include <algorithm>
#include <cmath>

#include "shade/base/error.h"

namespace shade::measure {
namespace {

// Student's t, 97.5 %, by degrees of freedom.
double student(size_t freedom) {
  static constexpr double kTable[] = {12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23};
  return freedom == 0 ? 0 : freedom <= 10 ? kTable[freedom - 1] : 1.96;
}

// Least squares of the relative errors of a T + b T^2, neither of them negative.
double share_of_square(const std::vector<std::pair<double, double>>& points) {
  double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
  for (const auto& [x, y] : points) {
    const double u = x / y, v = x * x / y;
    uu += u * u;
    uv += u * v;
    vv += v * v;
    u1 += u;
    v1 += v;
  }
  const double determinant = uu * vv - uv * uv;
  const double a = (u1 * vv - v1 * uv) / determinant, b = (v1 * uu - u1 * uv) / determinant;
  if (!(b > 0)) return 0;
  if (!(a > 0)) return 1;
  const double longest = std::max_element(points.begin(), points.end())->first;
  return b * longest / (a + b * longest);
}

}  // namespace

double Growth::at_twice(double time) const { return time * (exponent < 0.5 ? std::pow(2, exponent) : 2 + 2 * square); }

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
  out.square = share_of_square(points);
  out.verdict = out.exponent < 0.5       ? "constant"
                : out.square <= 0.5      ? "O(T)"
                : out.square < 2.0 / 3.0 ? "between O(T) and O(T^2)"
                                         : "O(T^2)";
  return out;
}

}  // namespace shade::measure
