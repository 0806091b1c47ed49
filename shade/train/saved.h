// What a run keeps in its checkpoints beside weights and optimizer: the caller's JSON of a manifest.
#pragma once

#include <optional>
#include <string>

#include "shade/base/json.h"
#include "shade/checkpoint/ledger.h"

namespace shade::train {

struct Saved {
  // Others may read a checkpoint: of a private run, identity and data are keyed hashes, or absent without a key.
  std::optional<std::string> identity, data;
  int64_t micro_batch = 0;
  Json settings;      // changes.h; null: saved by 0.1.0
  std::string began;  // the checkpoint that --resume-from named, before all steps since
  bool is_private = false;
  std::optional<checkpoint::Origin> origin;  // of a private run; none: no step was made
  double clip_norm = 0;                      // of a private run
  std::optional<double> noise_variance{};    // optim::Optimizer's; none: it corrects for no noise

  Json json() const;
  static Saved from_json(const Json& json);  // throws UsageError naming what is missing
};

}  // namespace shade::train
