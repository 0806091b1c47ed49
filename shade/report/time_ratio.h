// The time of a row over that of another one, as shade compare measured it.
#pragma once

#include <optional>
#include <string>

#include "shade/base/json.h"

namespace shade::report {

struct TimeRatio {
  std::string reference;  // the name of the row that is 1
  double value = 1;
  std::optional<std::pair<double, double>> interval;  // 99 %; empty: too few runs

  bool distinguishable() const { return interval && (interval->first > 1 || interval->second < 1); }
};

// Of a result; empty: it wasn't compared. Throws Error that names the key.
std::optional<TimeRatio> ratio_in(const Json& result);

struct ResultRow;
const TimeRatio* ratio_between(const ResultRow& row, const ResultRow& reference);  // nullptr: not measured
double time_over(const ResultRow& row, const ResultRow& reference);  // as measured in pairs, else of the medians
// The row that it is compared with: without privacy at the same shape, or the one that its ratio names. nullptr: none.
struct Results;
const ResultRow* compared_with(const Results& results, const ResultRow& row);
// By their ratio; without one, by the intervals of their medians; of single runs, by the spread of their steps.
bool distinguishable(const ResultRow& a, const ResultRow& b);
// Whether times of this row may be compared at all: it ran often enough for an interval, if it was compared, and others
// used at most a fifth of the cores meanwhile.
inline constexpr double kBusy = 0.2;
bool is_settled(const ResultRow& row);
// "+31.0 % (+25.0 % to +38.0 %)", "-4.10 % (-9.00 % to +1.20 %, not distinguishable)"; without a ratio "+31.0 %", or
// "+1.00 % (not distinguishable)".
std::string time_cost_text(const ResultRow& row, const ResultRow& reference);

}  // namespace shade::report
