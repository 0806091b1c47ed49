// shade release: the files of a run that may be published.
#include "shade/train/release/release.h"

#include <torch/version.h>

#include <cstdio>

#include "shade/base/error.h"
#include "shade/base/files.h"
#include "shade/base/json.h"
#include "shade/base/strings.h"
#include "shade/base/visible_text.h"
#include "shade/cli/verb.h"
#include "shade/cli/version.h"
#include "shade/train/release/check_release.h"

namespace shade::cli {
namespace {

struct ReleaseConfig {
  train::ReleasedPart part = train::ReleasedPart::automatic;
  train::ExportType export_dtype = train::ExportType::automatic;
  bool without_privacy = false;
  std::string check;

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
    f.add("check", check,
          {.help = "released folder whose files are compared with the digests in its privacy.json, in place of RUN and "
                   "FOLDER; finds damaged, missing and additional files, and is not a signature",
           .flags = {"--check"}});
  }
};

int check_folder(const std::string& folder, const std::string& json_file) {
  const auto checked = train::check_release(folder);
  for (const auto& words : lines_of(checked)) std::printf("%s\n", words.c_str());
  std::printf("privacy.json has SHA-256 %s; compare it with the publisher's\n", checked.statement_sha256.c_str());
  if (json_file.empty()) return checked.passed() ? 0 : 1;
  Json out{{"folder", without_folders(folder)},
           {"passed", checked.passed()},
           {"matching", checked.matching},
           {"statement_sha256", checked.statement_sha256},
           {"statement", checked.json}};
  for (const auto& [key, names] : {std::pair("different", &checked.different),
                                   {"missing", &checked.missing},
                                   {"unreadable", &checked.unreadable},
                                   {"extra", &checked.extra}}) {
    out[key] = Json::array();
    for (const auto& name : *names) out[key].push_back(visible(name));  // perhaps no UTF-8
  }
  write_json(json_file, out);
  return checked.passed() ? 0 : 1;
}

struct ReleaseVerb final : LineVerb {
  std::string from, folder;
  ReleaseConfig release;
  Config config;
  const CLI::Option *first, *second;

  ReleaseVerb()
      : LineVerb("release",
                 "Writes the files of a finished run that may be published: the model, its tokenizer, and a privacy "
                 "statement (PRIVACY.md, privacy.json).\nMetrics, ledger, key, recipe and paths are left out. A run "
                 "without an epsilon is refused, unless --without-privacy is given.\nThe statement has the SHA-256 of "
                 "every file; --check compares them.",
                 "shade release runs/sections_private released\n"
                 "  shade release runs/sections_private adapters --part adapter --json statement.json\n"
                 "  shade release --check released") {
    config.add("release", release);
    first = line.app().add_option("RUN", from, "run directory of shade train, or one of its checkpoints");
    second = line.app().add_option("FOLDER", folder, "new or empty folder, written completely or not at all");
    line.add(config);
  }

  int run(const Arguments& arguments) override;
};

}  // namespace

std::unique_ptr<Invocation> declare_release() { return std::make_unique<ReleaseVerb>(); }

int ReleaseVerb::run(const Arguments& arguments) {
  if (const auto status = line.parse(arguments)) return *status;
  line.require_effects();
  SHADE_REQUIRE(!line.ranks || *line.ranks == 1, "a model is released by one process; drop --ranks");
  if (line.given("release.check")) {
    SHADE_REQUIRE(!release.check.empty(), "the name of the folder is empty; expected one that shade release wrote");
    SHADE_REQUIRE(first->count() == 0, "--check ", release.check, " compares that folder and releases nothing, so ",
                  from, " has no effect; drop one of them");
    for (const char* key : {"part", "export_dtype", "without_privacy"})
      SHADE_REQUIRE(!line.given(text("release.", key)), dashed(text("--", key)),
                    " has no effect with --check, which releases nothing; drop one of them");
    return check_folder(release.check, line.json_file);
  }
  for (const auto* argument : {first, second})
    SHADE_REQUIRE(argument->count() > 0, argument->get_name(), " is required, or --check FOLDER");
  const auto place = train::find_run((std::filesystem::path(from) / "").parent_path());
  SHADE_REQUIRE(place, from,
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
  std::printf("privacy.json has SHA-256 %s; state it where others can compare (shade release --check)\n",
              released.statement_sha256.c_str());
  for (const auto& file : released.taken) std::printf("made from %s\n", visible(file).c_str());
  if (!line.json_file.empty())
    write_json(line.json_file, {{"folder", without_folders(folder)},
                                {"files", released.files},
                                {"statement_sha256", released.statement_sha256},
                                {"made_from", without_folders(Json(released.taken))},
                                {"statement", to_json(released.statement)},
                                {"config", without_folders(json_values(config))}});
  return 0;
}

}  // namespace shade::cli
