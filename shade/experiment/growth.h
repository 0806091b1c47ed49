// How a time grows with the text's length: a power law, fitted, with its interval and a verdict.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace shade::experiment {

struct Growth {
  double exponent = 0;
  double low = 0, high = 0;  // 95 % confidence; equal to the exponent if two points leave nothing to doubt
  std::string verdict;       // "constant", "O(T)", "between O(T) and O(T^2)", "O(T^2)"
};

// Least squares of log(time) on log(length). At least two points with positive times.
Growth fit_growth(const std::vector<std::pair<double, double>>& points);

}  // namespace shade::experiment
