// Which phase and which kind of memory grows how with the sequence length, what that makes the bottleneck of each
// method, and what helps.
#pragma once

#include "shade/base/json.h"
#include "shade/measure/growth.h"

namespace shade::measure {

// One result of `shade bench` or of a row of repeats; `method` names what is scanned: usually the clipping method.
struct Scanned {
  std::string method;
  Json result;
};

struct FigureGrowth {
  std::string method, figure;  // a phase, or a kind of memory
  Growth growth;
  Points points;  // every run

  double median_at(double length) const;
  double at_twice() const;  // what it will be at twice the longest length; without a law: what it is at the longest
  Json json(const char* key, const char* unit) const;  // {key: figure, method, exponent, ..., points}
};

struct Bottleneck {
  std::string method, phase;
  double share = 0;   // of the sum of phases at `length`
  double length = 0;  // twice the longest one if the growth is known
  double predicted_ms = 0;
  std::string verdict, remedy;

  std::string describe() const;  // "norms of ghost: O(T^2), 71 % of a step at T = 8192"
};

struct ScanVerdict {
  std::vector<FigureGrowth> phases;  // all, and `step`; phases don't overlap: they add up to the step
  std::vector<FigureGrowth> memory;  // the peak of the largest rank, by category at its own highest moment, and `total`
  std::vector<Bottleneck> methods;   // one for each, in the order of the results

  const Bottleneck& worst() const;  // the one that takes most time
  Json json() const;
};

ScanVerdict judge(const std::vector<Scanned>& results);

// What helps against a phase, and `config` (of a result) doesn't have on.
std::string remedy_for(const std::string& phase, const Growth& growth, const Json& config);

}  // namespace shade::measure
