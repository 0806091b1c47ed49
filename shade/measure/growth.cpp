#include "shade/measure/growth.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numbers>
#include <set>
#include <tuple>

#include "shade/base/error.h"

namespace shade::measure {
namespace {

// What is believed before measuring: most phases are one law; the rest are sums of two, rarely of three.
constexpr double kPure = 0.9, kTwoTerms = 0.08, kThreeTerms = 0.02;
constexpr double kNeeded = 0.8;       // probability of a verdict
constexpr double kHolds = 0.8;        // share of a term that names the law
constexpr double kOutside = 0.1;      // of the exponent, beyond [0, 2]
constexpr size_t kRepeats = 3;        // runs of each length for a verdict beyond that range
constexpr double kScatterWeight = 2;  // the expected scatter counts as much as this many points

constexpr size_t kPureLaws = 3;  // come first among the shapes

using Shares = std::array<double, 3>;

struct Shape {
  Shares shares;
  double weight;
};

double value(const Shares& shares, double t) { return shares[0] + t * (shares[1] + t * shares[2]); }

// Vertices, edges and interior of the triangle of shares. Even steps of an angle, share = cos^2, are dense near the
// pure laws, where a small term of lower order changes the figure at short lengths most (Jeffreys' prior of shares).
std::vector<Shape> all_shapes() {
  constexpr int kSteps = 32;
  constexpr double kStep = std::numbers::pi / 2 / kSteps;
  const auto squares = [](int i) {
    const double angle = (i + 0.5) * kStep;
    return std::pair(std::cos(angle) * std::cos(angle), std::sin(angle) * std::sin(angle));
  };
  std::vector<Shape> out;
  for (size_t k = 0; k < 3; ++k) {
    out.push_back({.shares = {}, .weight = kPure / 3});
    out.back().shares[k] = 1;
  }
  for (size_t k = 0; k < 3; ++k)
    for (int i = 0; i < kSteps; ++i) {
      out.push_back({.shares = {}, .weight = kTwoTerms / 3 / kSteps});
      std::tie(out.back().shares[k], out.back().shares[(k + 1) % 3]) = squares(i);
    }
  const size_t inside = out.size();
  double sum = 0;
  for (int i = 0; i < kSteps; ++i)
    for (int j = 0; j < kSteps; ++j) {
      const auto [square, rest] = squares(i);
      const auto [linear, constant] = squares(j);
      out.push_back({.shares = {rest * constant, rest * linear, square}, .weight = std::sqrt(rest)});
      sum += out.back().weight;
    }
  for (size_t i = inside; i < out.size(); ++i) out[i].weight *= kThreeTerms / sum;
  return out;
}

// Student's t, 97.5 %, by degrees of freedom.
double student(size_t freedom) {
  static constexpr double kTable[] = {12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23};
  return freedom <= 10 ? kTable[freedom - 1] : 1.96 + 2.5 / static_cast<double>(freedom);
}

// Least squares of logarithms.
void fit_power(const Points& points, bool with_interval, Growth& out) {
  const auto count = static_cast<double>(points.size());
  double mean_x = 0, mean_y = 0, xx = 0, xy = 0, residual = 0;
  for (const auto& [x, y] : points) {
    mean_x += std::log(x) / count;
    mean_y += std::log(y) / count;
  }
  for (const auto& [x, y] : points) {
    xx += std::pow(std::log(x) - mean_x, 2);
    xy += (std::log(x) - mean_x) * (std::log(y) - mean_y);
  }
  const double slope = xy / xx;
  out.exponent = slope;
  if (!with_interval) return;
  for (const auto& [x, y] : points) residual += std::pow(std::log(y) - mean_y - slope * (std::log(x) - mean_x), 2);
  const auto freedom = points.size() - 2;
  const double error = std::sqrt(residual / static_cast<double>(freedom) / xx) * student(freedom);
  out.interval = Interval{slope - error, slope + error};
}

struct Believed {
  double weight, offset;  // of a shape; the mean of log(figure / shape)
};

// The logarithms at one length.
struct Group {
  double count = 0, sum = 0, squares = 0;
};

// A and the scatter are integrated out: A with a flat prior of log A, the variance with an inverse gamma around the
// expected one, which leaves Student's likelihood of the residual sum of squares.
std::vector<Believed> posterior(const Points& points, const std::vector<Shape>& shapes, double scatter) {
  const double origin = std::log(points.front().second);  // near all of them: little is lost in differences of squares
  std::map<double, Group> groups;
  for (const auto& [x, y] : points) {
    const double log_y = std::log(y) - origin;
    auto& group = groups[x];
    group.count += 1;
    group.sum += log_y;
    group.squares += log_y * log_y;
  }
  const double longest = groups.rbegin()->first;
  const auto count = static_cast<double>(points.size());
  std::vector<Believed> out;
  double best = -std::numeric_limits<double>::infinity();
  for (const auto& shape : shapes) {
    double mean = 0, squares = 0;
    for (const auto& [x, group] : groups) {
      const double log_shape = std::log(value(shape.shares, x / longest));
      mean += (group.sum - group.count * log_shape) / count;
      squares += group.squares - 2 * log_shape * group.sum + group.count * log_shape * log_shape;
    }
    const double sum = std::max(0.0, squares - count * mean * mean) + kScatterWeight * scatter * scatter;
    out.push_back({std::log(shape.weight) - (count - 1 + kScatterWeight) / 2 * std::log(sum), mean + origin});
    best = std::max(best, out.back().weight);
  }
  double all = 0;
  for (auto& one : out) all += one.weight = std::exp(one.weight - best);
  for (auto& one : out) one.weight /= all;
  return out;
}

double exponent_of(const Shares& shares) { return shares[1] + 2 * shares[2]; }

// 95 % of a figure of the shapes. Pure laws are left out: that a law is likely says nothing about how much of another
// term the points leave open.
Interval middle_95(const std::vector<Shape>& shapes, const std::vector<Believed>& believed,
                   const std::function<double(const Shares&)>& figure) {
  std::vector<std::pair<double, double>> values;
  double all = 0;
  for (size_t i = kPureLaws; i < shapes.size(); ++i) {
    values.emplace_back(figure(shapes[i].shares), believed[i].weight);
    all += believed[i].weight;
  }
  std::sort(values.begin(), values.end());
  Interval out{values.front().first, values.back().first};
  double below = 0;
  for (const auto& [value, weight] : values) {
    if (below <= 0.025 * all) out.low = value;
    below += weight;
    if (below < 0.975 * all) continue;
    out.high = value;
    break;
  }
  return out;
}

}  // namespace

double Growth::at(double length) const { return longest > 0 ? scale * value(shares, length / longest) : 0; }

Growth fit_growth(const Points& all, double scatter) {
  static const auto shapes = all_shapes();
  Points points;
  std::set<double> lengths;
  for (const auto& [x, y] : all) {
    SHADE_REQUIRE(x > 0, "a length is positive, found ", x);
    if (!(y > 0)) continue;
    points.emplace_back(x, y);
    lengths.insert(x);
  }
  Growth out;
  if (lengths.size() < 2) return out;
  fit_power(points, lengths.size() > 2, out);
  if (lengths.size() < 3) return out;  // any law goes through two points
  out.longest = *lengths.rbegin();
  const auto believed = posterior(points, shapes, scatter);
  std::array<double, 4> probability{};
  double offset = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const auto& shares = shapes[i].shares;
    const auto largest = std::max_element(shares.begin(), shares.end());
    probability[*largest >= kHolds ? static_cast<size_t>(largest - shares.begin()) : 3] += believed[i].weight;
    for (size_t k = 0; k < 3; ++k) out.shares[k] += believed[i].weight * shares[k];
    offset += believed[i].weight * believed[i].offset;
  }
  for (size_t k = 0; k < 3; ++k)
    out.between[k] = middle_95(shapes, believed, [k](const Shares& shares) { return shares[k]; });
  out.scale = std::exp(offset);
  const auto likeliest = std::max_element(probability.begin(), probability.end());
  out.probability = *likeliest;
  static constexpr const char* kVerdicts[] = {"constant", "O(T)", "O(T^2)", "mixed"};
  if (out.interval->low > 2 + kOutside || out.interval->high < -kOutside) {
    // Of times that were measured once, the slope says more about the noise than about a law.
    const bool repeated = scatter < kTimeScatter || points.size() >= kRepeats * lengths.size();
    if (repeated) out.verdict = out.interval->low > 0 ? "faster than O(T^2)" : "falling";
    return out;
  }
  const auto law = likeliest - probability.begin();
  out.exponent = exponent_of(out.shares);
  out.interval = middle_95(shapes, believed, exponent_of);
  // An exponent that may be that of the next law decides nothing, however likely the simplest explanation is.
  const bool excludes = law == 3 || (out.interval->low > static_cast<double>(law) - 1 &&
                                     out.interval->high < static_cast<double>(law) + 1);
  if (out.probability >= kNeeded && excludes) out.verdict = kVerdicts[law];
  return out;
}

}  // namespace shade::measure
