// What a finished run writes for others: the model for transformers, its adapters for PEFT.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shade/checkpoint/export.h"
#include "shade/data/dataset.h"
#include "shade/data/tokenizer/tokenizer.h"
#include "shade/models/model.h"
#include "shade/shard/runtime.h"
#include "shade/train/run/space.h"
#include "shade/train/spec/recipe.h"

namespace shade::train {

// What an exported language model says beside its weights: config.json with its classes and special tokens, the
// tokenizer, and how to generate.
struct TextExport {
  Json config;                                    // of any model
  std::map<std::string, std::string> tokenizer;   // files by name
  std::map<std::string, std::string> generation;  // generation_config.json, if the model generates
  std::vector<std::filesystem::path> taken;  // files of the tokenizer's and the model's folder that went into these
};

// The ids are the tokenizer's: those of the model's own config.json may be defaults that were never set, or of another
// tokenizer. Throws UsageError if a classifier's texts can't be padded.
TextExport text_export(const Recipe& recipe, const models::Model& model, const data::Dataset& trained_on);

// The same without the records. None: the model was not trained on texts.
struct TrainedTexts {
  const data::Tokenizer& tokenizer;
  bool classifier = false;
  std::vector<std::string> classes;
};
TextExport text_export(const Recipe& recipe, const models::Model& model, const std::optional<TrainedTexts>& texts);

// generation_config.json: the settings that came with the weights, with the tokenizer's ends.
Json generation_config(const Recipe& recipe, const data::Tokenizer& tokens);

// In which type a model is exported, and how its adapters are merged.
checkpoint::ExportOptions export_options(const Recipe& recipe);

// All must outlive it. prepare() and write() are collective.
class Exports {
 public:
  Exports(const Recipe& recipe, models::Model& model, const data::Dataset& records, shard::Runtime& runtime);

  // A folder that can't be written to, or weights that can't be merged or rounded, are better known before the first
  // step than after the last. Throws UsageError.
  void prepare() const;
  std::vector<Need> needs() const;
  void write() const;
  // Files of the tokenizer's and the model's folder that go into what is written.
  const std::vector<std::filesystem::path>& taken() const { return texts_.taken; }

 private:
  void write_files(const std::string& folder, const std::map<std::string, std::string>& files) const;
  void write_model() const;
  void write_adapter() const;

  const Recipe* recipe_;
  models::Model* model_;
  shard::Runtime* runtime_;
  checkpoint::ExportOptions options_;
  TextExport texts_;  // if anything is exported
};

}  // namespace shade::train
