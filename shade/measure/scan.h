// Which phase grows how with the text's length, what that makes the bottleneck, and what helps.
#pragma once

#include "shade/base/json.h"
#include "shade/measure/growth.h"

namespace shade::measure {

struct PhaseGrowth {
  std::string method, phase;
  Growth growth;
  std::vector<std::pair<double, double>> points;  // length, ms

  Json json() const;
};

struct ScanVerdict {
  std::vector<PhaseGrowth> phases;  // that take at least 1 % of a method's longest step
  std::string bottleneck, remedy;   // of the first method whose largest phase will be the largest at twice the length

  Json json() const;
};

// From results of `shade bench` that differ in `dp` and `seq_length`.
ScanVerdict judge(const std::vector<Json>& results);

}  // namespace shade::measure
