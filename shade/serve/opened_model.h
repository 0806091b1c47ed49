// A trained model, ready to be used by this process alone: whole, with its tokenizer if it reads texts.
//
//   a model folder        config.json, weights, tokenizer.json: from Hugging Face or written by --export
//   an adapter folder     adapter_config.json and adapter_model.safetensors: LoRA as PEFT or --export-adapter writes
//   it.
//                         Its base is the folder that it names, or another that is given
//   a run of shade train  its latest checkpoint; or the folder of one of its checkpoints. The moving average of the
//                         weights, if the run keeps one
//
// Nothing is random: a weight that is not there is an error.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shade/base/json.h"
#include "shade/data/config.h"
#include "shade/models/model.h"

namespace shade::serve {

struct OpenOptions {
  at::ScalarType type = at::kFloat;  // of weights and computation
  std::string tokenizer;             // in place of the model's own
  std::string base;                  // model folder that adapters are put on; empty: the one they name
};

struct OpenedModel {
  std::string title;                                 // what was opened, for people
  std::unique_ptr<models::Model> model;              // all weights bound
  std::string tokenizer_place;                       // as data::open_tokenizer reads it
  std::shared_ptr<const data::Tokenizer> tokenizer;  // none: the model draws images
  Json generation = Json::object();                  // generation_config.json
  std::vector<std::string> classes;  // names of a classifier's or image model's classes, by number; empty: not known
  data::DataConfig data;             // how records are read: of a run as in training, otherwise the defaults
  int64_t seq_length = 0;            // where texts were cut in training; 0: not known
  bool is_private = false;           // trained by a private run

  data::HeadClasses head() const;  // what the labels of records are mapped to
};

// Its kind (base/effect.h), by its configuration alone: a language model if there is none.
std::string kind_of(const std::string& place);

// Throws UsageError naming what is missing, or what is no such folder.
OpenedModel open_model(const std::string& place, const OpenOptions& options = {});

}  // namespace shade::serve
