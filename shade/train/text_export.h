// What an exported language model says beside its weights: config.json with its classes and special tokens, the
// tokenizer, and how to generate.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shade/data/dataset.h"
#include "shade/data/tokenizer/tokenizer.h"
#include "shade/models/model.h"
#include "shade/train/recipe.h"

namespace shade::train {

struct TextExport {
  Json config;                                    // of any model
  std::map<std::string, std::string> tokenizer;   // files by name
  std::map<std::string, std::string> generation;  // generation_config.json, if the model generates
  std::vector<std::filesystem::path> taken;  // files of the tokenizer's and the model's folder that went into these
};

// The ids are the tokenizer's: those of the model's own config.json may be defaults that nobody set, or of another
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

}  // namespace shade::train
