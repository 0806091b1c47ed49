// What a privacy statement says about the training beside its guarantee: data set, base model and settings. A reader
// outside gets names without folders, and only those numbers of records or users that are taken as public.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shade/base/json.h"
#include "shade/privacy/event.h"
#include "shade/train/recipe.h"

namespace shade::train {

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

}  // namespace shade::train
