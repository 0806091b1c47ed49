// What a run leaves behind, and finds again.
//
//   recipe.toml      every field as it was resolved
//   environment.json date, host, command and versions of the last start
//   metrics.jsonl    a line for each reported step and each evaluation; steps made again take the place of the first
//   checkpoints/     committed states; training continues from the last
//   ledger           privacy spent, written ahead; never gets shorter
//   key              of a private run: 32 secret bytes, readable by the owner alone. Anyone who has it can subtract
//                    the noise: it is deleted when the run is finished
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "shade/base/files.h"
#include "shade/base/json.h"
#include "shade/privacy/key.h"
#include "shade/train/spec/recipe.h"

namespace shade::train {

inline constexpr const char *kLedgerFile = "ledger", *kRecipeFile = "recipe.toml",
                            *kEnvironmentFile = "environment.json", *kKeyFile = "key";

class RunFolder {
 public:
  // Makes it. `owner`: its files are read by their owner alone, and so is the folder, unless it is there already with
  // other things in it; then a warning says so.
  explicit RunFolder(std::filesystem::path path, Readers readers = Readers::by_umask);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  Readers readers() const { return readers_; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path ledger() const { return path_ / kLedgerFile; }

  // The run's secret, if there is one; a new one, from the operating system, in the place of any other; its end: the
  // file is overwritten and removed. They throw Error.
  std::optional<privacy::NoiseKey> find_key() const;
  privacy::NoiseKey make_key() const;
  bool destroy_key() const;  // false: there was none

  void write_recipe(const std::string& toml) const;
  void write_environment(const Json& environment) const;
  void append_metrics(const Json& line);
  bool was_evaluated(int64_t step) const;  // the metrics tell of it
  // Takes away what is told of later steps, which are about to be made again, and lines that were cut off. Before the
  // first append; a reader sees the old file or the new one.
  void keep_metrics_until(int64_t step) const;

 private:
  std::filesystem::path key_file() const { return path_ / kKeyFile; }
  void replace(const std::filesystem::path& file, const std::string& content) const;

  std::filesystem::path path_;
  Readers readers_;
  int metrics_ = -1;  // descriptor; -1: not open
};

// A run of shade train as it is found by others: its directory, and one of its checkpoints.
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
