// The newest checkpoint of a folder that is whole, whatever LATEST says or has become of it.
#pragma once

#include <functional>

#include "shade/checkpoint/store.h"

namespace shade::checkpoint {

struct Newest {
  std::filesystem::path folder;
  Manifest manifest;
  std::vector<std::string> faults;  // why this one: of LATEST, and of each checkpoint that should have come first
};

// Whether a checkpoint is one of those to choose from, by what the caller had saved with it; asked on rank 0.
using Belongs = std::function<bool(const std::filesystem::path& folder, const Json& caller)>;

// Collective over `group`; rank 0 says in which order. Loads what LATEST names. If LATEST is missing or damaged, or a
// file of that checkpoint is missing, cut or changed on any rank, the others that belong are tried, newest first: each
// is proven before a live tensor is written (load.h). Empty: nothing was ever committed. Throws Error if checkpoints
// are there and none is whole, naming each with its fault; and whatever else goes wrong (memory, a disk that doesn't
// answer, another model's checkpoint) as it is: it is no proof of damage. Damaged ones, and those that don't belong,
// are the first that later saves remove.
std::optional<Newest> load_newest(Store& store, const comm::Group& group, shard::Runtime& runtime,
                                  optim::Optimizer& optimizer, const Belongs& belongs = {});

}  // namespace shade::checkpoint
