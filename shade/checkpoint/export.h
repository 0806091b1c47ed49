// A trained model as others read it: one folder in Hugging Face's layout.
#pragma once

#include <filesystem>

#include "shade/base/json.h"
#include "shade/base/units.h"
#include "shade/shard/runtime.h"

namespace shade::checkpoint {

struct ExportOptions {
  at::ScalarType dtype = at::kFloat;  // of what is written
  Bytes max_shard = GiB(5);
};

// Collective over `group`, all ranks of the runtime. Rank 0 writes; no rank holds more than a unit of the model besides
// its own. `config` becomes config.json (models::Model::config_json). Adapters (LoRA) are refused: readers of such a
// folder would leave them out.
void export_model(shard::Runtime& runtime, const std::filesystem::path& folder, const Json& config,
                  const comm::Group& group, const ExportOptions& options = {});

// The same from a checkpoint, by one process alone and without the model.
void export_checkpoint(const std::filesystem::path& checkpoint, const std::filesystem::path& folder, const Json& config,
                       const ExportOptions& options = {});

}  // namespace shade::checkpoint
