// Several runs of one experiment as one result.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "shade/base/json.h"

namespace shade::catalog {

// The steps of all runs (`times_ms`), the median of each (`run_times_ms`), the median of those with its interval, the
// memory of the largest run, the load by others; figures that depend on the time of a step follow the median. The first
// run that failed, if one did. What is compared between rows or fitted are runs, one figure each: steps of a process
// have more in common than its repeats.
Json merged_runs(std::span<const Json> runs);

// The own times of phases (catalog/parts.h) of every run of a result.
std::map<std::string, std::vector<double>> own_runs_of(const Json& result);

// Writes the median and its interval into a result that has none: of its runs, else of its steps, else the average.
void add_median(Json& result);

}  // namespace shade::catalog
