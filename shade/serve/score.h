// How good a model is on records: what shade eval computes.
#pragma once

#include "shade/serve/generate.h"
#include "shade/train/run/evaluate.h"

namespace shade::serve {

// Of records that have a prompt: what precedes the last tokens that count in the loss, a completion or the last answer
// of a conversation.
struct ExactMatch {
  int64_t prompts = 0, matches = 0;  // the greedy continuation of the prompt, until it ends, is the record's, but for
                                     // white space around it
  double share() const { return static_cast<double>(matches) / static_cast<double>(prompts); }
};

// What the model says of one record.
struct Prediction {
  int64_t record = 0;  // its number in the data set
  double loss = 0;     // mean over its tokens that count, of a language model; 0 if none does
  struct Class {
    int64_t label = 0, predicted = 0;
    double probability = 0;  // of the predicted one
  };
  std::optional<Class> of_classes{};
  struct Answer {
    std::string expected, generated;  // without white space around them
    bool match = false;
  };
  std::optional<Answer> answer{};  // of a record that counts in ExactMatch
};

struct Scores {
  train::Evaluation evaluation;
  std::vector<Prediction> predictions;    // of each record, in the order of the data set
  std::optional<ExactMatch> exact_match;  // none: no record has a prompt, or it was not asked for
};

// Reads all records, similar lengths together, and shows its progress.
Scores score(OpenedModel& model, const data::TextDataset& records, bool exact_match);

}  // namespace shade::serve
