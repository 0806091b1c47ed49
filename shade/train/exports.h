// What a finished run writes for others: the model for transformers, its adapters for PEFT.
#pragma once

#include <vector>

#include "shade/checkpoint/export.h"
#include "shade/data/dataset.h"
#include "shade/models/model.h"
#include "shade/shard/runtime.h"
#include "shade/train/recipe.h"
#include "shade/train/space.h"
#include "shade/train/text_export.h"

namespace shade::train {

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
