// A trained model as others read it: one folder in Hugging Face's layout.
#pragma once

#include <filesystem>
#include <optional>

#include "shade/base/units.h"
#include "shade/shard/runtime.h"

namespace shade::checkpoint {

// Data type, file size and LoRA scale of an exported model.
struct ExportOptions {
  at::ScalarType dtype = at::kFloat;  // of what is written
  Bytes max_shard = GiB(5);           // of tensor data per file; a larger tensor gets its own file
  std::optional<double> lora_scale;   // alpha over rank, if the model has LoRA adapters
};

// Collective over `group`, all ranks of the runtime. Rank 0 writes; no rank holds more than a unit of the model besides
// its own. `config`, which is JSON, becomes config.json (models::Model::config_json). LoRA adapters are added to their
// weights, W + lora_scale * B A: readers of such a folder know the weights alone.
void export_model(shard::Runtime& runtime, const std::filesystem::path& folder, const std::string& config,
                  const comm::Group& group, const ExportOptions& options = {});

// Makes one weight of each shape as export_model() would, and writes nothing: what can fail in that shows before the
// first step, not after the last. Collective as above; `folder` is for the message.
void try_export(shard::Runtime& runtime, const std::filesystem::path& folder, const comm::Group& group,
                const ExportOptions& options = {});

// Makes the folder if it is not there, and refuses one that has adapters.
void prepare_adapter_folder(const std::filesystem::path& folder);

// What was trained alone, in PEFT's layout: `config` becomes adapter_config.json. Collective as above.
void export_adapter(shard::Runtime& runtime, const std::filesystem::path& folder, const std::string& config,
                    const comm::Group& group);

// The whole model from a checkpoint, by one process alone and without the model. Weights that have a moving average
// (optim/ema.h) are exported as that.
void export_checkpoint(const std::filesystem::path& checkpoint, const std::filesystem::path& folder,
                       const std::string& config, const ExportOptions& options = {});

// What was trained alone, as export_adapter() writes it, from a checkpoint.
void export_checkpoint_adapter(const std::filesystem::path& checkpoint, const std::filesystem::path& folder,
                               const std::string& config);

}  // namespace shade::checkpoint
