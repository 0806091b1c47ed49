// What a private run promises, said once: the end of shade train on the terminal, PRIVACY.md and privacy.json are three
// renderings of one struct. docs/schema/privacy.schema.json describes the JSON.
//
// A fact that is not known, or not public, is stated as such with the reason; none is left out silently.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shade/accounting/accountant.h"
#include "shade/accounting/event.h"
#include "shade/accounting/filter.h"
#include "shade/base/json.h"
#include "shade/privacy/config.h"
#include "shade/train/spec/recipe.h"

namespace shade::train {

// What a privacy statement says about the training beside its guarantee: data set, base model and settings. A reader
// outside gets names without folders, and only those numbers of records or users that are taken as public.
struct FileDigest {
  std::string name, sha256;

  bool operator==(const FileDigest&) const = default;
};

struct TrainingFacts {
  // How many records, windows or users were trained on. None: `not_stated` says why.
  struct Count {
    std::string of;  // "users"
    std::optional<int64_t> number;
    std::string not_stated;
  };
  struct Base {
    std::string name;               // empty: training started from random weights
    std::string revision;           // of a copy from the hub; empty: not known
    std::vector<FileDigest> files;  // its weights as they are now; empty: not available

    bool operator==(const Base&) const = default;
  };

  std::string started;             // day of the last start in UTC; empty: the run doesn't say
  std::string data;                // name of the folder or file, of several starts all; empty: not known
  std::vector<Count> counts;       // the unit of privacy first
  Base base;                       // of the first start
  std::vector<Base> later_bases;   // that later starts named, if they are others
  Json settings = Json::object();  // as configured at the last start
  int64_t checkpoint_step = 0;     // steps that made the released weights
};

// Steps of one kind: what the numbers that are public follow from.
struct SampledSteps {
  privacy::Mechanism mechanism;
  double divisor = 0;
};

// Whether the recipe takes the number of units as public, because its sampling follows from it.
bool takes_number_as_public(const Recipe& recipe);

// `starts` are the recipes of all starts of the run, the last one last; `steps` those of the ledger, and none if there
// is no guarantee: then no number is stated. `environment` is the run's, or null. Reads the files of base models.
// Throws io::FormatError if one of them leads out of its folder.
TrainingFacts facts_of(std::span<const Recipe> starts, std::span<const SampledSteps> steps, const Json& environment);

// Of "/data/visits/" and "visits": "visits". Empty if the path ends with no name.
std::string last_name(const std::filesystem::path& path);

// Where the key of the noise is when the statement is made.
enum class NoiseKeyState { absent, present, kept };  // kept: --keep-key was given, and the run directory has none
inline std::span<const Name<NoiseKeyState>> names_of(NoiseKeyState) {
  static constexpr Name<NoiseKeyState> kNames[] = {{"not in the run directory", NoiseKeyState::absent},
                                                   {"in the run directory", NoiseKeyState::present},
                                                   {"kept, not in the run directory", NoiseKeyState::kept}};
  return kNames;
}

struct PrivacyStatement {
  // Steps of one kind, as the ledger has them.
  struct Steps {
    privacy::Mechanism mechanism;
    double clip_norm = 0;  // of adaptive clipping, the first one
    double divisor = 0;    // the public constant that sums are divided by
    privacy::ClipStyle clip_style = privacy::ClipStyle::flat;
    int64_t max_records = 0;  // of users: most records of one in a step
    bool exact_sum = true;    // false: of a version whose sums were rounded
    bool ideal_noise = true;  // false: of a version whose noise was near the ideal one, and sampling near the rate
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
  NoiseKeyState key = NoiseKeyState::absent;
  optim::Algorithm optimizer = optim::Algorithm::adamw;

  // Of a release alone.
  std::string released_on;  // day in UTC
  TrainingFacts facts;
  std::vector<FileDigest> files;  // what the statement is about

  int64_t step_count() const;
  // Runs that share a data ledger are defended together: no figure of one of them holds against a reader of all.
  bool is_shared() const { return data_ledger && data_ledger->runs > 1; }
};

// What may be promised: of runs that share a data ledger its cap, otherwise what the run spent. Only with a guarantee.
struct Headline {
  double epsilon = 0, delta = 0;
};
Headline headline(const PrivacyStatement& statement);

// The program that an environment.json, or Trainer::Options::environment, names.
PrivacyStatement::Program program_in(const Json& environment);

// Of a run directory: what its ledger has, read as it is on the disk. `recipe` is the run's, resolved. Throws Error if
// the ledger, or the data ledger that the recipe names, is damaged or changes while it is read.
PrivacyStatement state_privacy(const Recipe& recipe, const std::filesystem::path& run);

// All digits of a number that a person stated, as they wrote it: "8" for 8.0.
std::string plain_digits(double value);

// The renderings. Epsilon is rounded up in all of them.
inline constexpr const char *kStatementText = "PRIVACY.md", *kStatementJson = "privacy.json",
                            *kStatementFormat = "shade privacy statement";
inline constexpr int kStatementVersion = 2;  // 1: epsilon is that of the run, no facts of training, no files
std::vector<std::string> short_lines(const PrivacyStatement& statement);  // for a terminal
std::string markdown(const PrivacyStatement& statement);                  // PRIVACY.md
Json to_json(const PrivacyStatement& statement);                          // privacy.json

// README.md of a release, as hubs show it: what it is, its guarantee in a table, how to load it.
struct ReleasedModel {
  enum class Kind { classifier, language_model, other } kind = Kind::other;
  bool adapter = false;  // LoRA adapters alone
};
inline constexpr const char* kModelCard = "README.md";
std::string model_card(const PrivacyStatement& statement, const ReleasedModel& model);

}  // namespace shade::train
