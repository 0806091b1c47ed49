// What the rows say, in sentences: the fastest, what privacy costs, ZeRO-3 against ZeRO-2, what to change.
#pragma once

#include <string>
#include <vector>

#include "shade/report/rows.h"

namespace shade::report {

// What a private row costs over the non-private one of its shape.
struct Cost {
  double time_percent = 0, memory_percent = 0, memory_mb = 0;
};
// On the page, and as a column of the CSV.
struct CostName {
  const char *key, *column;
  double Cost::* member;
};
inline constexpr CostName kCosts[] = {{"time_percent", "time_overhead_percent", &Cost::time_percent},
                                      {"memory_percent", "memory_overhead_percent", &Cost::memory_percent},
                                      {"memory_mb", "memory_overhead_mb", &Cost::memory_mb}};
std::optional<Cost> cost_of(const Results& results, const ResultRow& row);

// The row that differs from this ZeRO-3 row in its strategy alone, ZeRO-2; nullptr: there is none.
const ResultRow* under_zero2(const Results& results, const ResultRow& row);

struct Finding {
  std::string about;  // a word or two, for a heading
  std::string text;
  bool is_doubt = false;  // on the measurement itself: is said before all figures
};
inline constexpr const char* kBusyMachine = "Busy machine";  // others used it: no times are compared
std::vector<Finding> findings_of(const Results& results);

std::string memory_text(double mb);  // "12.3 MiB", "1.50 GiB"
std::string time_text(double ms);    // "12.3 ms"

}  // namespace shade::report
