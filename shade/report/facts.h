// When, where and by what rows were measured or runs were made, as far as their files say: the head of the page.
#pragma once

#include <vector>

#include "shade/report/rows.h"

namespace shade::report {

// [{"about": "date", "text": "2026-01-31 12:00 UTC to 12:40 UTC"}, {"about": "host", ...}, ...]; what none of them says
// is left out.
Json facts_of(const std::vector<Settings>& environments);

}  // namespace shade::report
