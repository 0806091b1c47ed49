#include "shade/train/run_place.h"

#include <algorithm>
#include <map>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/visible_text.h"
#include "shade/checkpoint/folder.h"
#include "shade/checkpoint/manifest.h"
#include "shade/train/run_folder.h"

namespace shade::train {

namespace fs = std::filesystem;

namespace {

Recipe read_resolved(const fs::path& file) {
  Recipe recipe;
  Config config;
  recipe.declare(config);
  config.read_toml(file);
  return recipe;
}

}  // namespace

std::optional<RunPlace> find_run(const fs::path& place) {
  const auto above = place.parent_path().parent_path();
  if (fs::exists(place / checkpoint::kManifestFile) && fs::exists(above / kRecipeFile))
    return RunPlace{above.empty() ? "." : above, place};
  if (!fs::exists(place / kRecipeFile)) return std::nullopt;
  const checkpoint::Folder saved(place / "checkpoints");
  const auto latest = saved.latest();
  SHADE_REQUIRE(latest, "the run ", place.string(), " has no checkpoint yet (LATEST in ", saved.path().string(),
                "); a run saves one at its end, every --save-every steps, or on Ctrl-C");
  return RunPlace{place, saved.place(latest->entry)};
}

std::vector<std::string> runs_in(const fs::path& folder) {
  constexpr size_t kMost = 10;
  std::vector<std::string> out;
  std::error_code fault;
  for (fs::directory_iterator entry(folder, fault), end; !fault && entry != end; entry.increment(fault))
    if (std::error_code unreadable; fs::exists(entry->path() / kRecipeFile, unreadable))
      out.push_back(visible(entry->path().string()));
  std::sort(out.begin(), out.end());
  if (out.size() > kMost) out.resize(kMost);
  return out;
}

Recipe recipe_of(const RunPlace& place) { return read_resolved(place.run / kRecipeFile); }

EarlierRecipes earlier_recipes(const fs::path& run) {
  constexpr std::string_view kBegin = "recipe.", kEnd = ".toml";
  std::map<int64_t, fs::path> files;
  for (const auto& entry : fs::directory_iterator(run)) {
    const auto name = entry.path().filename().string();
    if (!name.starts_with(kBegin) || !name.ends_with(kEnd) || name.size() <= kBegin.size() + kEnd.size()) continue;
    const auto number = name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
    if (const auto value = parse_integer(number)) files[*value] = entry.path();
  }
  // They are numbered from 1 on: what is missing in between is not known.
  EarlierRecipes out{.recipes = {}, .complete = files.empty() || files.rbegin()->first == std::ssize(files)};
  for (const auto& [number, file] : files) {
    try {
      out.recipes.push_back(read_resolved(file));
    } catch (const std::exception&) {
      out.complete = false;
    }
  }
  return out;
}

void require_split_by_rate(const fs::path& run) {
  if (!fs::exists(run / kLedgerFile) || !fs::exists(run / kRecipeFile)) return;
  auto starts = earlier_recipes(run).recipes;
  starts.push_back(read_resolved(run / kRecipeFile));
  for (const auto& start : starts)
    SHADE_REQUIRE(!start.dp.is_private() || start.train.eval_records == 0, "the private run in ", run.string(),
                  " was begun with --eval-records ", start.train.eval_records,
                  ", so the share that it holds out follows from the number of records; such a run is not continued. "
                  "Start a new one in another directory (--output) with --eval-rate, e.g. 0.05; shade release, eval "
                  "and report open this one as before");
}

}  // namespace shade::train
