// How a time grows with the text's length: a power law, fitted, with its interval; and what will grow from here on.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace shade::measure {

struct Growth {
  double exponent = 0;
  double low = 0, high = 0;  // 95 % confidence; equal to the exponent if two points leave nothing to doubt
  double square = 0;         // the share of T^2 at the longest length, if the time is a T + b T^2
  std::string verdict;       // "constant", "O(T)", "between O(T) and O(T^2)", "O(T^2)"

  double at_twice(double time) const;  // what a time at the longest length becomes at twice that
};

// The exponent is that of least squares of log(time) on log(length): a mean over all lengths, in which the short ones
// hide a square that has just begun to grow. So the verdict is by `square`: O(T^2) from 2/3 on, O(T) up to 1/2; the
// exponent only tells what is constant (below 1/2). At least two points with positive times.
Growth fit_growth(const std::vector<std::pair<double, double>>& points);

}  // namespace shade::measure
