// What training runs were asked to do, and in what they differ.
#pragma once

#include <filesystem>
#include <vector>

#include "shade/report/rows.h"

namespace shade::report {

// "optim.lr" -> "0.01", of the recipe.toml that shade train wrote into the run directory; empty: it has none. The run
// directory itself is no setting, and of absolute paths the last name is left: a page is shared. Lines that shade train
// doesn't write are skipped.
Settings read_run_settings(const std::filesystem::path& folder);

// [{"setting": "optim.lr", "values": ["0.01", "0.005"]}, ...]: a value for each run, "-" where it has none. Runs
// without any settings don't count.
Json differing_settings(const std::vector<Settings>& runs);

}  // namespace shade::report
