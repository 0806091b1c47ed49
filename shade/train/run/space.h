// A disk that is too small is better known before the first step than at the first save.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "shade/base/units.h"
#include "shade/optim/optimizer.h"
#include "shade/shard/runtime.h"

namespace shade::train {

struct Need {
  std::string what;  // "3 checkpoints of 1.20 GiB"
  std::filesystem::path folder;
  Bytes bytes;
  std::string remedy;  // beside freeing space
};

// Throws UsageError if a file system has less free than is needed on it, naming folders, needs and what is free.
// Folders that aren't there yet are looked up where they would be made.
void require_space(const std::vector<Need>& needs);

// What a checkpoint of all ranks takes. Collective over the runtime's ranks.
struct CheckpointBytes {
  Bytes trained;  // and its optimizer state; in every checkpoint
  Bytes frozen;   // written once by each start of a run
};
CheckpointBytes checkpoint_bytes(shard::Runtime& runtime, optim::Optimizer& optimizer);

// What checkpoints will take beyond those that are there. One more than is kept, until the oldest is removed; fewer if
// the run doesn't save as often.
Need checkpoint_need(const std::filesystem::path& folder, const CheckpointBytes& each, int64_t keep, int64_t there,
                     int64_t saves);

}  // namespace shade::train
