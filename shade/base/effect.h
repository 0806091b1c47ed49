// Whether an option that was given has an effect. Each field states what it needs (FieldInfo::needs) beside its help:
// other fields, or facts that no field states, such as the number of ranks. Verbs refuse what has no effect by this one
// rule; --help, --describe-options and the tests read the same conditions.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shade/base/config.h"

namespace shade {

// Facts, and what they may be, in the words of messages.
inline const std::string kRanks = "ranks", kModelKind = "model kind", kStepKind = "step kind";
inline const std::string kOneRank = "one rank", kSeveralRanks = "several ranks";
inline const std::string kLanguageModel = "a language model", kTextClassifier = "a text classifier",
                         kImageModel = "an image model", kLinearModel = "a linear model";
inline const std::string kPlainStep = "a step that is not private", kPrivateStep = "a private step";

inline Condition needs_texts() { return {kModelKind, {kLanguageModel, kTextClassifier}}; }
inline Condition needs_images() { return {kModelKind, {kImageModel}}; }
inline Condition needs_attention() { return {kModelKind, {kLanguageModel, kTextClassifier, kImageModel}}; }
inline Condition needs_ranks() { return {kRanks, {kSeveralRanks}}; }

struct Fact {
  std::string value;
  std::vector<std::string> decided_by{};  // fields; empty: what starts the run, which a file doesn't say
};
using Facts = std::map<std::string, Fact>;

inline Fact ranks_fact(int ranks) { return {ranks > 1 ? kSeveralRanks : kOneRank}; }

struct Unmet {
  std::vector<std::string> decided_by;  // fields that decide it; empty: what starts the run
  std::string why;                      // "with --optimizer adamw: it belongs to --optimizer sgd"
};

// The first condition of the field that doesn't hold. What the configuration has no field for and no fact was given of
// is taken to hold.
std::optional<Unmet> unmet(const Field& field, const Config& config, const Facts& facts);

// "--optimizer sgd", for the help of a field; empty: it has an effect in every run.
std::string conditions_text(const Field& field, const Config& config);

}  // namespace shade
