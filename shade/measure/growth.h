// How a figure grows with the sequence length: constant, O(T), O(T^2) or a sum of them, with what is certain of it.
//
// Model: y = A (s0 + s1 t + s2 t^2) e, t = T / longest, s0 + s1 + s2 = 1, none negative, e log-normal. The shares s are
// those of the terms at the longest length, which is where the figure grows from. docs/measuring.md, Growth.
// Cost: about 1100 shapes x lengths, once per figure.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shade::measure {

using Points = std::vector<std::pair<double, double>>;  // length, figure; a length may come again, once per run

struct Interval {
  double low = 0, high = 0;
};

struct Growth {
  // How the figure grows at the longest length, s1 + 2 s2. Without a law, outside the model or with two lengths: the
  // mean slope of log(figure) over log(length). Empty: fewer than two lengths.
  std::optional<double> exponent;
  std::optional<Interval> interval;   // 95 % of it; empty: fewer than three lengths
  std::array<double, 3> shares{};     // of 1, T, T^2 at the longest length: means of the posterior
  std::array<Interval, 3> between{};  // 95 % of each share
  double probability = 0;             // of the verdict
  double scale = 0, longest = 0;      // the fitted figure at the longest length; that length
  // "constant", "O(T)", "O(T^2)": the term that has at least 80 % at the longest length; "mixed": none has;
  // "faster than O(T^2)", "falling": outside the model; "undecided": the points don't tell, or too few lengths.
  std::string verdict = "undecided";

  double at(double length) const;  // the fitted figure; 0: there is no fit
};

// Relative scatter that is expected before any is seen: it keeps few points that happen to agree from being believed.
inline constexpr double kTimeScatter = 0.1, kMemoryScatter = 0.005;

// Points that are not positive have no logarithm and are left out.
Growth fit_growth(const Points& points, double scatter = kTimeScatter);

}  // namespace shade::measure
