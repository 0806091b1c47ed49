// What shade report shows of a training run beyond its metrics: the privacy statement, and settings without effect.
#pragma once

#include <filesystem>

#include "shade/report/runs.h"

namespace shade::cli {

// Of a run directory; empty for one without a recipe. A ledger or recipe that cannot be read does not stop the report:
// the statement then says why there is none.
report::RunDetails run_details(const std::filesystem::path& run);

}  // namespace shade::cli
