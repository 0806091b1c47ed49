// Files of shade plan --json: planned rows beside measured ones, and what --advise tried.
#pragma once

#include "shade/report/rows.h"

namespace shade::report {

bool is_plan(const Json& json);

// Its rows, and its advice. Rows without a time (no device profile was named) are listed as skipped, those that are no
// rows as broken.
void add_plan(Results& results, const Json& plan, const std::string& file);

}  // namespace shade::report
