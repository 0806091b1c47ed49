// A run of shade train as it is found by others: its directory, and one of its checkpoints.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "shade/train/recipe.h"

namespace shade::train {

struct RunPlace {
  std::filesystem::path run, checkpoint;
};

// Of the folder of a run, with its latest checkpoint, or of one of its checkpoints. None: it is neither. Throws
// UsageError if the run has no checkpoint. No slash at the end of `place`.
std::optional<RunPlace> find_run(const std::filesystem::path& place);

// Paths of the runs that lie in this folder, for messages about a folder that is no run itself; at most ten, sorted.
std::vector<std::string> runs_in(const std::filesystem::path& folder);

Recipe recipe_of(const RunPlace& place);  // as it was resolved; throws UsageError

// Of earlier starts with other settings than the last one, oldest first (recipe.1.toml, ...).
struct EarlierRecipes {
  std::vector<Recipe> recipes;
  bool complete = true;  // false: one of them is missing or can't be read
};
EarlierRecipes earlier_recipes(const std::filesystem::path& run);

// Private runs up to 0.2 derived the share that they held out from the number of records. They can be opened and
// released, with a statement that says so; this throws UsageError if `run` is such a run and is to be continued.
void require_split_by_rate(const std::filesystem::path& run);

}  // namespace shade::train
