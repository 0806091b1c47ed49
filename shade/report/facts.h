// When, where and by what the rows were measured, as far as their files say: the head of the page.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "shade/report/rows.h"

namespace shade::report {

// {"date", "2026-01-31 12:00 UTC to 12:40 UTC"}, {"host", ...}, ...; what no row says is left out.
std::vector<std::pair<std::string, std::string>> facts_of(const Results& results);

}  // namespace shade::report
