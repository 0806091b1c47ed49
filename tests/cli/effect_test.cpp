// An option that was given has an effect or is refused: every option of every verb that states a condition
// (FieldInfo::needs) is given where the condition doesn't hold.
#include <gtest/gtest.h>

#include <set>

#include "shade/base/effect.h"
#include "shade/base/strings.h"
#include "shade/cli/bench_line.h"
#include "shade/cli/describe.h"
#include "shade/cli/matrix_verbs.h"
#include "shade/proof/audit.h"
#include "shade/proof/verify.h"
#include "tests/support/process.h"

namespace shade::cli {
namespace {

struct VerbBases {
  const char* name;
  std::unique_ptr<Invocation> (*declare)();
  std::vector<std::string> bases;  // commands in which some options have no effect; each option has none in one of them
  bool texts_alone = false;        // it knows no other models
};

// What is accepted is refused next, for a reason that is checked later: a model that is too large, no data.
const VerbBases kVerbBases[] = {
    {"account", declare_account, {"--sigma 1 --rate 0.1 --steps 10"}},
    {"audit",
     declare_audit,
     {"--model linear-nano --hidden-dim 1048576", "--kind training --hidden-dim 1048576",
      "--norm-algorithm input_length --hidden-dim 1048576"}},
    {"bench",
     declare_bench,
     {"--model linear-nano --hidden-dim 1048576",
      "--model dit-nano --hidden-dim 1048576 --optimizer sgd --norm-algorithm input_length --weight-decay 0",
      "--model linear-nano --hidden-dim 1048576 --work forward_backward",
      "--model linear-nano --hidden-dim 1048576 --dp ghost --norm-algorithm input_length"}},
    {"calibrate", declare_calibrate, {"--ranks 1"}},
    {"comm", declare_comm, {"--ranks 1"}},
    {"data", declare_data, {"", "--data-folder nowhere", "--data-folder nowhere --task classify"}, true},
    {"eval", declare_eval, {"nowhere"}, true},
    {"generate", declare_generate, {"nowhere --prompt x", test::source_root() + "/tests/golden/dit --output-dir ."}},
    {"ledger", declare_ledger, {"nowhere"}},
    {"train",
     declare_train,
     {"--model linear-nano --from-scratch --synthetic --dp none --memory-limit 1",
      "--model dit-nano --from-scratch --data-folder nowhere --dp none --optimizer sgd --weight-decay 0 --save-every 2 "
      "--memory-limit 1",
      "--model llama-nano --from-scratch --data-folder nowhere --dp ghost --norm-algorithm input_length --sampler "
      "shuffled --memory-limit 1"}},
    {"verify",
     declare_verify,
     {"--ranks 1", "--ranks 1 --model linear-nano --hidden-dim 1048576",
      "--ranks 1 --model llama-nano --task lm --hidden-dim 1048576"}},
};

// What a run that is not private must not be asked for, and adapters of a model without any, is refused before, in
// words of its own.
const std::set<std::string> kRefusedBefore{"--target-epsilon", "--max-epsilon", "--data-ledger", "--export-adapter"};

Description described(const VerbBases& verb) { return verb.declare()->description(); }

// Another value than the default.
std::string other_value(const OptionWords& option) {
  for (const auto& choice : option.choices)
    if (choice != option.standard) return choice;
  if (option.type == "text" || option.type == "texts") return "another";
  if (option.type == "bytes" || option.type == "sizes") return "12345678";
  if (option.type == "seconds") return "77s";
  if (option.type == "number") return option.max && *option.max <= 1 ? "0.375" : "3.5";
  return text(parse_integer(option.standard).value_or(0) + 1);
}

std::string said_by(const VerbBases& verb, const std::string& base, const OptionWords& option) {
  auto words = base.empty() ? Arguments() : split(base, ' ');
  words.insert(words.end(), {option.names.front(), other_value(option)});
  try {
    verb.declare()->run(words);
  } catch (const UsageError& fault) {
    return fault.what();
  } catch (const std::exception& fault) {
    return text("went on, and failed: ", fault.what());
  }
  return "accepted";
}

TEST(Effect, OptionsThatStateAConditionAreRefusedWithoutIt) {
  size_t refused = 0;
  for (const auto& verb : kVerbBases) {
    for (const auto& option : described(verb).options) {
      if (option.needs.empty()) continue;
      if (verb.texts_alone && option.needs == text(kLanguageModel, " or ", kTextClassifier)) continue;
      std::string all;
      bool found = false;
      for (const auto& base : verb.bases) {
        const auto said = said_by(verb, base, option);
        found = said.find(option.names.front() + " has no effect with") != std::string::npos ||
                (kRefusedBefore.contains(option.names.front()) && said.find("model states") == std::string::npos);
        all += text("\n  ", base, ": ", said);
        if (found) break;
      }
      EXPECT_TRUE(found) << verb.name << " " << option.names.front() << " (only with " << option.needs << ")" << all;
      refused += found ? 1 : 0;
    }
  }
  EXPECT_GT(refused, 100u);
}

// A condition that names no field, or a value that its field can't have, would never or always hold.
template <class Declare>
void expect_conditions_exist(const Declare& declare) {
  Config config;
  declare(config);
  for (const auto& field : config.fields())
    for (const auto& condition : field.info().needs) {
      SCOPED_TRACE(text(field.key(), " needs ", condition.on));
      if (condition.on.find('.') == std::string::npos) {
        EXPECT_TRUE(condition.on == kRanks || condition.on == kModelKind || condition.on == kStepKind ||
                    condition.on == train::kHeldOutFact);
        continue;
      }
      if (!config.has(condition.on)) continue;  // another verb's
      for (const auto& value : condition.values) EXPECT_NO_THROW(config.set(condition.on, value)) << value;
    }
}

TEST(Effect, ConditionsNameFieldsAndTheirValues) {
  train::Recipe recipe;
  Config config;
  recipe.declare(config);
  for (const auto& field : config.fields())
    for (const auto& condition : field.info().needs)
      EXPECT_TRUE(condition.on.find('.') == std::string::npos || config.has(condition.on)) << field.key();
  expect_conditions_exist([&](Config& into) { recipe.declare(into); });
  measure::Experiment experiment;
  expect_conditions_exist([&](Config& into) { experiment.declare(into); });
  proof::Audit audit;
  expect_conditions_exist([&](Config& into) { audit.declare(into); });
}

TEST(Effect, RestatedDefaultsPass) {
  BenchLine bench;
  bench.parse({"--model", "linear-nano", "--momentum", "0", "--lora-alpha", "32", "--replicate", "2"});
  EXPECT_TRUE(bench.unused.empty()) << bench.unused.front().message;
  BenchLine other;
  other.parse({"--model", "linear-nano", "--momentum", "0.5", "--lora-alpha", "8"});
  ASSERT_EQ(other.unused.size(), 2u);
  EXPECT_EQ(other.unused[0].message,
            "--lora-alpha has no effect without --lora-rank; drop it, or give it what it needs");
  EXPECT_EQ(other.unused[1].message,
            "--momentum has no effect with --optimizer adamw: it belongs to --optimizer sgd; drop it, or give it what "
            "it needs");
}

TEST(Effect, AMatrixRefusesWhatNoRowUses) {
  const std::vector<NoEffect> unused{{"--momentum", "--momentum has no effect"}};
  EXPECT_THROW(require_used({unused, unused}, {"--momentum", "0.5"}), UsageError);
  EXPECT_NO_THROW(require_used({unused, {}}, {"--momentum", "0.5"})) << "another row uses it";
  EXPECT_NO_THROW(require_used({unused, unused}, {"--lr", "1"})) << "a preset gave it";
}

}  // namespace
}  // namespace shade::cli
