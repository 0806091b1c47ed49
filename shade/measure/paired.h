// Is one row slower than another? From runs in pairs, without believing anything about the noise.
//
// d_i = log(run i of a row / run i of its reference), both of one round, in random order. If the rows are the same, the
// sign of every d_i is a fair coin, whatever else happens on the machine: drift, bursts, a busy core. So the
// signed-rank interval (Wilcoxon; of all pairwise means) has its level exactly. The value is the ratio of the medians,
// which tables and pictures show of each row. If the machine drifted it may lie outside the interval of the pairs;
// the interval is widened to hold it, so that a row is never called faster while its median is the larger one.
// Cost: n^2 means for n runs, sorted.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "shade/base/json.h"
#include "shade/measure/growth.h"

namespace shade::measure {

inline constexpr double kRatioError = 0.01;      // 99 % intervals
inline constexpr double kRatioPrecision = 0.03;  // is what repeats are for

struct Ratio {
  std::string reference;             // the row that is 1
  double value = 1;                  // median over the reference's
  std::optional<Interval> interval;  // 99 %; empty: too few runs for any
  size_t runs = 0;                   // pairs
  double error = kRatioError;        // what is left of 1 % after earlier looks

  bool distinguishable() const { return interval && (interval->low > 1 || interval->high < 1); }
  bool precise() const;          // the interval is within 3 % of its middle
  std::string verdict() const;   // "slower", "faster", "not distinguishable", "too few runs"
  std::string describe() const;  // "1.31 x no_dp (1.25 to 1.38)", "0.99 x no_dp (0.93 to 1.12), not distinguishable"
  Json json() const;
};

// The times of runs, pair by pair; what one has more is left out.
Ratio paired_ratio(std::span<const double> times, std::span<const double> reference, double error = kRatioError);

// Looking again and again and stopping when it suits finds a difference sooner or later. So there are few looks, and
// the k-th may err with probability 1 % x 6 / (pi k)^2: over all of them, however many, at most 1 %.
int64_t next_look(int64_t runs);     // the first one after so many runs: 9, 14, 21, 32, ...
double error_of_look(int64_t runs);  // of the look after so many runs, or of the next one if it comes early

}  // namespace shade::measure
