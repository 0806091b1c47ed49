// What the verbs that use a trained model share: which model, and how it is computed.
#pragma once

#include "shade/cli/verb.h"
#include "shade/serve/opened_model.h"
#include "shade/train/spec/model_config.h"

namespace shade::cli {

struct ServedModel {
  std::string place;  // the argument MODEL
  std::string base;
  train::ComputeType dtype = train::ComputeType::fp32;
  int64_t threads = 0;

  void add_argument(CommandLine& line);
  void declare(Fields& f);
  void check(const CommandLine& line) const;  // throws UsageError
  // With this tokenizer in place of the model's own, unless it is empty. Says what was opened.
  serve::OpenedModel open(const std::string& tokenizer) const;
};

}  // namespace shade::cli
