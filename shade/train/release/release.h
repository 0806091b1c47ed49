// What may be published: a trained model as others read it, and what is promised about its records. Nothing else of the
// run: no metrics, ledger, key, recipe, token cache or path of this machine.
//
//   config.json, model*.safetensors, generation_config.json        the model, LoRA adapters merged
//   adapter_config.json, adapter_model.safetensors                 the adapters alone; beside a model in adapter/
//   tokenizer.json, tokenizer_config.json, chat_template.jinja...   of texts
//   PRIVACY.md, privacy.json                                       the statement (privacy_statement.h)
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "shade/train/release/privacy_statement.h"
#include "shade/train/run/run_folder.h"

namespace shade::train {

enum class ReleasedPart { automatic, model, adapter, both };
inline std::span<const Name<ReleasedPart>> names_of(ReleasedPart) {
  static constexpr Name<ReleasedPart> kNames[] = {{"auto", ReleasedPart::automatic},
                                                  {"model", ReleasedPart::model},
                                                  {"adapter", ReleasedPart::adapter},
                                                  {"both", ReleasedPart::both}};
  return kNames;
}

struct ReleaseOptions {
  ReleasedPart part = ReleasedPart::automatic;  // what the run's recipe exports; the model if it exports nothing
  ExportType dtype = ExportType::automatic;     // as the run exports it
  bool without_privacy = false;                 // of a run without an epsilon; refused for one that has it
  PrivacyStatement::Program program;            // that releases
};

struct Released {
  PrivacyStatement statement;
  std::string statement_sha256;    // of privacy.json, which can't contain it
  std::vector<std::string> files;  // below the folder, sorted
  std::vector<std::string> taken;  // files of the tokenizer's and the model's folder that went into them
};

// One process alone, without the records. The folder appears whole or not at all; one that is there must be empty.
// Throws UsageError: a run without an epsilon, nothing to release, a folder that is taken; io::FormatError: a file of
// the tokenizer's or the model's folder that leads out of it (io/model_file.h); Error if writing fails.
Released release(const RunPlace& run, const std::filesystem::path& folder, const ReleaseOptions& options = {});

}  // namespace shade::train
