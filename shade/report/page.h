// The report as one page that needs nothing else: no network, no other file.
#pragma once

#include <string>

#include "shade/report/findings.h"

namespace shade::report {

// Rows, findings, colours: what the page draws from, and what --json writes.
Json report_json(const Results& results, const std::vector<Finding>& findings);

// The page with the data in it; `summary` is for readers without JavaScript.
std::string page_of(const Json& report, const std::string& summary);

}  // namespace shade::report
