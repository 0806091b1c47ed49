// How long work of one kind takes: a start-up time and a rate, or measured points.
#pragma once

#include <string>
#include <vector>

#include "shade/base/json.h"
#include "shade/base/units.h"

namespace shade::plan {

// `amount` is FLOPs of matrix products and attention, bytes read and written of everything else, and bytes of the full
// buffer of collectives.
struct RatePoint {
  double amount = 0;
  Seconds time{0};
};

// start + amount / per_second. With points: between two of them the logarithm of the time is interpolated over the
// logarithm of the amount; below the first one the time is the first one's, above the last one the last one's rate
// holds.
struct Rate {
  Seconds start{0};
  double per_second = 0;
  std::vector<RatePoint> points{};  // ascending amounts

  bool known() const { return per_second > 0 || !points.empty(); }
  Seconds time(double amount) const;

  Json json() const;                                           // {"start_us", "per_second", "points": [[amount, s]]}
  static Rate from(const Json& json, const std::string& key);  // throws UsageError naming the key
};

// The start and the rate that fit the points best, by least squares of relative errors: a law that is held by small
// amounts and large ones alike. Needs two points or more.
Rate fitted(std::vector<RatePoint> points);

}  // namespace shade::plan
