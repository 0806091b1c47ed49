// The rows as text: a table for people, a table for spreadsheets.
#pragma once

#include <string>

#include "shade/report/findings.h"

namespace shade::report {

std::string summary_of(const Results& results, const std::vector<Finding>& findings);
std::string csv_of(const Results& results);  // RFC 4180, a header line, a line for every row and failure

}  // namespace shade::report
