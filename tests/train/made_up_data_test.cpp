#include "shade/train/feed/made_up_data.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "shade/models/registry.h"

namespace shade::train {
namespace {

TEST(MadeUpData, LabelsAreDroppedInTrainingAlone) {
  const auto model = models::make_model("dit-nano", {}, {});
  const MadeUpData data(*model, 200, 8, 1);
  std::vector<int64_t> all(200);
  std::iota(all.begin(), all.end(), 0);
  const auto dropped = [](const nn::Batch& batch) { return (batch.labels == 10).sum().item<int64_t>(); };
  EXPECT_NEAR(static_cast<double>(dropped(data.batch_at(all, 3))), 20, 15);
  EXPECT_EQ(dropped(data.batch(all)), 0);
}

TEST(Synthetic, OtherRecordsHaveAnotherFingerprint) {
  const auto print = [](const std::string& name, int64_t records, int64_t length, uint64_t seed) {
    const auto model = models::make_model(name, {}, {});
    return MadeUpData(*model, records, length, seed).fingerprint();
  };
  const auto wanted = print("llama-nano", 8, 12, 1);
  EXPECT_EQ(print("llama-nano", 8, 12, 1), wanted);
  EXPECT_NE(print("qwen2-nano", 8, 12, 1), wanted);
  EXPECT_NE(print("llama-nano", 9, 12, 1), wanted);
  EXPECT_NE(print("llama-nano", 8, 13, 1), wanted);
  EXPECT_NE(print("llama-nano", 8, 12, 2), wanted);
}

}  // namespace
}  // namespace shade::train
