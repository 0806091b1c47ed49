// What a private run promises, said once: the end of shade train on the terminal, PRIVACY.md and privacy.json are three
// renderings of one struct. docs/schema/privacy.schema.json describes the JSON.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "shade/base/json.h"
#include "shade/privacy/accounting/accountant.h"
#include "shade/privacy/accounting/filter.h"
#include "shade/privacy/config.h"
#include "shade/train/recipe.h"

namespace shade::train {

struct PrivacyStatement {
  // Steps of one kind, as the ledger has them.
  struct Steps {
    privacy::Mechanism mechanism;
    double clip_norm = 0;  // of adaptive clipping, the first one
    double divisor = 0;    // the public constant that sums are divided by
    privacy::ClipStyle clip_style = privacy::ClipStyle::flat;
    int64_t max_records = 0;  // of users: most records of one in a step
    int64_t count = 0;
  };
  // Which program; empty: not known.
  struct Program {
    std::string shade, commit, libtorch;
    bool known() const { return !shade.empty() || !commit.empty() || !libtorch.empty(); }
  };
  // What all runs on one data set spend together, if they share a ledger.
  struct DataLedger {
    privacy::Cap cap;        // holds for all of them, whatever their settings were chosen by
    privacy::Spent planned;  // what they have spent, had they been planned ahead
    int64_t runs = 0;
    std::string digest;  // of the file
  };

  std::string no_guarantee;             // why there is none; empty: `spent` holds
  std::optional<privacy::Spent> spent;  // by all steps of the ledger; set if there is a guarantee
  privacy::PrivacyUnit unit = privacy::PrivacyUnit::record;
  std::string unit_by;  // PrivacyEvent::unit_by
  std::vector<Steps> steps;
  std::vector<std::string> taken_as_public, not_covered;  // noun phrases
  Program trained_with, released_with;
  std::string ledger_digest;  // BLAKE2b of 256 bits of the file; empty: there is no ledger
  std::optional<DataLedger> data_ledger;

  int64_t step_count() const;
};

// The program that an environment.json, or Trainer::Options::environment, names.
PrivacyStatement::Program program_in(const Json& environment);

// Of a run directory: what its ledger has, read as it is on the disk. `recipe` is the run's, resolved. Throws Error if
// the ledger, or the data ledger that the recipe names, is damaged or changes while it is read.
PrivacyStatement state_privacy(const Recipe& recipe, const std::filesystem::path& run);

// The renderings. Epsilon is rounded up in all of them.
std::vector<std::string> short_lines(const PrivacyStatement& statement);  // for a terminal
std::string markdown(const PrivacyStatement& statement);                  // PRIVACY.md
Json to_json(const PrivacyStatement& statement);                          // privacy.json

}  // namespace shade::train
