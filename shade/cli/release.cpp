// shade release: the files of a run that may be published.
#include "shade/train/release.h"

#include <torch/version.h>

#include <cstdio>

#include "shade/base/error.h"
#include "shade/base/output_file.h"
#include "shade/base/visible_text.h"
#include "shade/base/without_folders.h"
#include "shade/cli/verb.h"
#include "shade/cli/version.h"

namespace shade::cli {
namespace {

struct ReleaseConfig {
  train::ReleasedPart part = train::ReleasedPart::automatic;
  train::ExportType export_dtype = train::ExportType::automatic;
  bool without_privacy = false;

  void declare(Fields& f) {
    f.add("part", part,
          {.help = "part of a run with LoRA adapters that is released; model: the whole model, adapters merged; "
                   "adapter: the adapters alone, for PEFT; both: the model, and the adapters in its subfolder adapter; "
                   "auto: what the run exported (--export, --export-adapter), or the model if it exported nothing",
           .flags = {"--part"}});
    f.add("export_dtype", export_dtype,
          {.help = "data type of the model; auto: as the run exports it", .flags = {"--export-dtype"}});
    f.add("without_privacy", without_privacy,
          {.help = "whether to release a run without an epsilon (not private, seeded noise, steps without noise, no "
                   "ledger); the statement then says that there is no guarantee",
           .flags = {"--without-privacy"}});
  }
};

}  // namespace

int run_release(const Arguments& arguments) {
  std::string run, folder;
  ReleaseConfig release;
  Config config;
  config.add("release", release);
  CommandLine line("release",
                   "Writes the files of a finished run that may be published: the model, its tokenizer, and a privacy "
                   "statement (PRIVACY.md, privacy.json).\nMetrics, ledger, key, recipe and paths are left out. A run "
                   "without an epsilon is refused, unless --without-privacy is given.",
                   "shade release runs/sections_private released\n"
                   "  shade release runs/sections_private adapters --part adapter --json statement.json");
  line.app().add_option("RUN", run, "run directory of shade train, or one of its checkpoints")->required();
  line.app().add_option("FOLDER", folder, "new or empty folder, written completely or not at all")->required();
  line.add(config);
  if (const auto status = line.parse(arguments)) return *status;
  line.require_effects();
  SHADE_REQUIRE(!line.ranks || *line.ranks == 1, "a model is released by one process; drop --ranks");
  const auto place = train::find_run((std::filesystem::path(run) / "").parent_path());
  SHADE_REQUIRE(place, run,
                " is not a run of shade train: expected its directory (recipe.toml and checkpoints), or one "
                "of its checkpoints");
  const auto released =
      train::release(*place, folder,
                     {.part = release.part,
                      .dtype = release.export_dtype,
                      .without_privacy = release.without_privacy,
                      .program = {.shade = version(), .commit = commit(), .libtorch = TORCH_VERSION}});
  for (const auto& words : short_lines(released.statement)) std::printf("%s\n", visible_lines(words).c_str());
  std::printf("released %s: %zu files\n", visible(folder).c_str(), released.files.size());
  for (const auto& file : released.files) std::printf("  %s\n", visible(file).c_str());
  for (const auto& file : released.taken) std::printf("made from %s\n", visible(file).c_str());
  if (!line.json_file.empty())
    write_json(line.json_file, {{"folder", without_folders(folder)},
                                {"files", released.files},
                                {"made_from", without_folders(Json(released.taken))},
                                {"statement", to_json(released.statement)},
                                {"config", without_folders(config.json())}});
  return 0;
}

}  // namespace shade::cli
