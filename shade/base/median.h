// The median of measured values, and its interval without assumptions about their distribution.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

namespace shade {

// Of at least one value; of an even number of them the mean of the two in the middle.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return values.size() % 2 == 1 ? *middle : (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// Holds the true median except with probability `error`: a value is above it as often as below, so the number of values
// above it is that of heads of fair coins. Empty: too few values (of 1 %: fewer than 8).
inline std::optional<std::pair<double, double>> median_interval(std::vector<double> values, double error = 0.01) {
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  double chance = std::exp2(-count), below = chance;  // of 0 heads; of at most `outside` heads
  size_t outside = 0;                                 // values left out on either side, and one more
  while (outside < values.size() / 2 && 2 * below <= error) {
    chance *= (count - static_cast<double>(outside)) / (static_cast<double>(outside) + 1);
    below += chance;
    ++outside;
  }
  if (outside == 0) return std::nullopt;
  return std::pair(values[outside - 1], values[values.size() - outside]);
}

}  // namespace shade
