// The name of a configuration, which names folders of traces: another one for every option that differs.
#include <gtest/gtest.h>

#include "shade/measure/bench.h"
#include "tests/support/process.h"

namespace shade::measure {
namespace {

// Another value than the present one, of any type.
bool change(Field& field) {
  const auto before = field.str();
  for (const auto* word : {"true",      "false", "3",        "0.25",   "7",
                           "64",        "8MiB",  "zero3",    "ghost",  "other",
                           "bf16",      "lm",    "none",     "size",   "post",
                           "token",     "block", "standard", "sgd",    "cosine",
                           "per_layer", "width", "packed",   "sincos", "forward_backward",
                           "data",      "fp32",  "line",     "all",    "gloo",
                           "on"}) {
    try {
      field.set(word);
    } catch (const UsageError&) {
      continue;
    }
    if (field.str() != before) return true;
  }
  return false;
}

constexpr int kRanks = 1;  // of two, zero3 would follow from no strategy

std::string key_with(size_t changed, std::string& name) {
  Experiment experiment;
  Config config;
  experiment.declare(config);
  if (changed < config.fields().size()) {
    auto& field = config.fields()[changed];
    name = field.key();
    if (name == "model.model_folder")
      field.set(test::source_root() + "/tests/golden/llama_lm");
    else if (name == "shard.segment")
      field.set("8MiB");
    else
      EXPECT_TRUE(change(field)) << name << " takes none of these words; add one that it takes";
  }
  experiment = *train::resolve(experiment, config.stated(), kRanks);
  return log_key(experiment, kRanks);
}

TEST(LogKey, DiffersWhenAnyOptionDiffers) {
  Experiment experiment;
  Config config;
  experiment.declare(config);
  const auto count = config.fields().size();
  std::string name;
  const auto plain = key_with(count, name);
  EXPECT_TRUE(plain.starts_with("llama-nano_none_ranks1_batch2_fp32_")) << plain;
  std::set<std::string> seen{plain};
  for (size_t i = 0; i < count; ++i) {
    const auto key = key_with(i, name);
    if (name == "bench.trace" || name == "bench.use_profiler" || name == "bench.tensorboard")
      EXPECT_EQ(key, plain) << name << " says where files go";
    else
      EXPECT_TRUE(seen.insert(key).second) << name << " does not change " << key;
  }
}

TEST(LogKey, TheModeIsTheWordThatWasGiven) {
  for (const auto* word : {"vanilla", "no_dp", "flash_clip", "ghost_fsdp", "ghost", "auto"}) {
    Experiment experiment;
    Config config;
    experiment.declare(config);
    config.set("dp.dp", word);
    config.set("shard.shard", "zero3");
    experiment = *train::resolve(experiment, config.stated(), kRanks);
    EXPECT_EQ(experiment.mode, word);
  }
  Experiment experiment;
  Config config;
  experiment.declare(config);
  experiment = *train::resolve(experiment, config.stated(), kRanks);
  EXPECT_EQ(experiment.mode, "no_dp");
  experiment.dp.dp = privacy::MethodName::automatic;  // as a recipe with an epsilon has it
  experiment = *train::resolve(experiment, config.stated(), kRanks);
  EXPECT_EQ(experiment.mode, "auto");
}

}  // namespace
}  // namespace shade::measure
