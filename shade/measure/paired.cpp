#include "shade/measure/paired.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "shade/base/error.h"
#include "shade/base/median.h"
#include "shade/base/units.h"

namespace shade::measure {
namespace {

constexpr int64_t kFirstLook = 9;  // the fewest runs that can be sure to 0.6 %: 2 / 2^9

// How many of the smallest (and of the largest) means lie outside the interval; -1: there is none.
// The sum of the ranks of positive differences is the sum of coins worth 1, 2, ..., n.
int64_t outside(size_t runs, double error) {
  std::vector<double> chance{1};
  for (size_t rank = 1; rank <= runs; ++rank) {
    std::vector<double> next(chance.size() + rank);
    for (size_t sum = 0; sum < chance.size(); ++sum) {
      next[sum] += chance[sum] / 2;
      next[sum + rank] += chance[sum] / 2;
    }
    chance = std::move(next);
  }
  double below = 0;
  int64_t count = -1;
  for (const double one : chance) {
    below += one;
    if (below > error / 2) break;
    ++count;
  }
  return count;
}

int64_t after(int64_t look) { return look + (look + 1) / 2; }

}  // namespace

bool Ratio::precise() const {
  return interval && std::log(interval->high / interval->low) / 2 <= std::log1p(kRatioPrecision);
}

std::string Ratio::verdict() const {
  if (!interval) return "too few runs";
  return interval->low > 1 ? "slower" : interval->high < 1 ? "faster" : "not distinguishable";
}

std::string Ratio::describe() const {
  const auto of = reference.empty() ? "" : " x " + reference;
  if (!interval) return text(significant(value), of, " (", runs, runs == 1 ? " run" : " runs", ": no interval)");
  return text(significant(value), of, " (", significant(interval->low), " to ", significant(interval->high), ")",
              distinguishable() ? "" : ", not distinguishable");
}

Json Ratio::json() const {
  return {{"reference", reference},
          {"value", value},
          {"interval", interval ? Json::array({interval->low, interval->high}) : Json()},
          {"confidence", 1 - kRatioError},
          {"runs", runs},
          {"verdict", verdict()}};
}

Ratio paired_ratio(std::span<const double> times, std::span<const double> reference, double error) {
  const auto runs = std::min(times.size(), reference.size());
  SHADE_REQUIRE(runs > 0, "a ratio needs at least one run of both rows");
  const double value = median({times.begin(), times.begin() + static_cast<std::ptrdiff_t>(runs)}) /
                       median({reference.begin(), reference.begin() + static_cast<std::ptrdiff_t>(runs)});
  std::vector<double> differences, means;
  for (size_t i = 0; i < runs; ++i) {
    SHADE_REQUIRE(times[i] > 0 && reference[i] > 0, "a time is positive, found ", times[i], " and ", reference[i]);
    differences.push_back(std::log(times[i] / reference[i]));
    for (const double other : differences) means.push_back((other + differences.back()) / 2);
  }
  std::sort(means.begin(), means.end());
  Ratio out{.reference = {}, .value = value, .interval = {}, .runs = runs, .error = error};
  if (const auto left_out = outside(runs, error); left_out >= 0) {
    const auto first = static_cast<size_t>(left_out);
    out.interval =
        Interval{std::min(value, std::exp(means[first])), std::max(value, std::exp(means[means.size() - 1 - first]))};
  }
  return out;
}

int64_t next_look(int64_t runs) {
  int64_t look = kFirstLook;
  while (look <= runs) look = after(look);
  return look;
}

double error_of_look(int64_t runs) {
  double number = 1;
  for (int64_t look = kFirstLook; look < runs; look = after(look)) ++number;
  return kRatioError * 6 / std::pow(std::numbers::pi * number, 2);
}

}  // namespace shade::measure
