// What training runs were asked to do, and in what they differ.
#pragma once

#include <filesystem>
#include <set>
#include <vector>

#include "shade/report/rows.h"

namespace shade::report {

inline constexpr const char* kNoEffect = "does not apply";  // the value of a setting that changes nothing in its run

// "optim.lr" -> "0.01", of the recipe.toml that shade train wrote into the run directory; empty: it has none. What
// follows from another setting is shown with it: "0.74 (found for target_epsilon)". The run directory itself is no
// setting, and of absolute paths and those that lead out of the working folder the last name is left: a page is shared.
// Lines that shade train doesn't write are skipped.
Settings read_run_settings(const std::filesystem::path& folder, const std::set<std::string>& without_effect = {});

// [{"setting": "optim.lr", "values": ["0.01", "0.005"]}, ...]: a value for each run, "-" where it has none. Runs
// without any settings don't count, and of a minor setting neither do those that it doesn't apply to.
Json differing_settings(const std::vector<Settings>& runs);

// [{"group": "Model", "settings": [{"setting": "model.model", "values": [...]}, ...]}, ...]: all settings of all runs,
// those that decide most first, and the rest as the last group. Empty: no run has any.
Json grouped_settings(const std::vector<Settings>& runs);

}  // namespace shade::report
