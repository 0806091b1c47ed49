#include "shade/train/step/slots.h"

#include <gtest/gtest.h>

#include "shade/models/registry.h"
#include "shade/shard/runtime.h"

namespace shade::train {
namespace {

bool is_norm_or_bias(const std::string& name) {
  return name.ends_with("bias") || name.find("norm") != std::string::npos;
}

// Of every model, however its buffers are cut: norms and biases, and nothing else.
TEST(Slots, NormsAndBiasesDontDecay) {
  for (const std::string name : {"llama-nano", "qwen2-nano", "qwen3-nano", "dit-nano", "linear-nano"})
    for (const auto wrap : {shard::Wrap::module, shard::Wrap::none}) {
      const auto model = models::make_model(name, {}, {});
      auto world = comm::World::connect({}, {});
      shard::ShardConfig config;
      config.shard = shard::Strategy::zero3;
      config.wrap = wrap;
      config.segment = KiB(1);  // cuts through weights
      shard::Runtime runtime(model->parameters(), shard::connect_groups(world, shard::policy_of(config, 1)), config);
      const auto shards = runtime.shards();
      const auto slots = slots_of(shards);
      ASSERT_EQ(slots.size(), shards.size());
      int64_t constant = 0, wanted = 0;
      for (size_t i = 0; i < slots.size(); ++i) {
        int64_t before = -1;
        for (const auto& [begin, end] : slots[i].without_decay) {
          EXPECT_GT(begin, before) << "neighbours are one range";
          EXPECT_LT(begin, end);
          before = end;
          constant += end - begin;
          for (const auto& run : shards[i].runs)
            if (run.at < end && begin < run.at + run.size)
              EXPECT_TRUE(is_norm_or_bias(run.weight->name())) << name << " " << run.weight->name();
        }
      }
      for (const auto& weight : model->parameters().weights())
        if (is_norm_or_bias(weight.name())) wanted += weight.numel();
      EXPECT_EQ(constant, wanted) << name;
      EXPECT_GT(constant, 0) << name;
      world.leave();
    }
}

TEST(Slots, AdaptersAndHeadsDecay) {
  const auto model = models::make_model(
      "qwen2-nano", {}, {.task = models::Task::classify, .lora = nn::LoraOptions{.rank = 2, .alpha = 4}});
  for (const auto& weight : model->parameters().weights())
    if (weight.trainable()) EXPECT_TRUE(decays(weight)) << weight.name();
}

}  // namespace
}  // namespace shade::train
