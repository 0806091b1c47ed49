// Results of shade audit --json in a folder: a table of audits by planted fault, and a picture of what was found.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "shade/base/json.h"
#include "shade/report/gnuplot.h"

namespace shade::report {

struct AuditRow {
  std::string file, kind, fault;
  double claimed = 0, found = 0;  // epsilon
  int64_t canaries = 0;           // of one training; 0: an audit with one canary
  int64_t trials = 0;             // noisy sums or trainings of each world, or canaries
  std::string verdict;
};

// At least one JSON file there is a result of shade audit, and none is one of shade bench or compare.
bool holds_audits(const std::filesystem::path& folder);
// Ordered by kind, fault and trials; other files are skipped. Throws UsageError if there is none.
std::vector<AuditRow> read_audits(const std::filesystem::path& folder);

std::string summary_of(const std::vector<AuditRow>& rows);  // fault x kind: of each the row with the most trials
Json json_of(const std::vector<AuditRow>& rows);

// Claimed and found epsilon over the number of canaries. Empty script: no audit has several canaries.
Picture audits_picture(const std::vector<AuditRow>& rows);

}  // namespace shade::report
