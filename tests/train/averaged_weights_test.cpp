// A run with a moving average of its weights: trained as without, evaluated and exported as the average.
#include "shade/train/step/written_weights.h"

#include <ATen/ATen.h>

#include "shade/checkpoint/export.h"
#include "shade/checkpoint/folder.h"
#include "shade/io/weight_folder.h"
#include "tests/io/scratch.h"
#include "tests/train/training.h"

namespace shade::train {
namespace {

Words recipe(const std::filesystem::path& exported, const Words& more = {}) {
  Words out{{"model.model", "dit-nano"}, {"train.export_folder", exported.string()},
            {"train.steps", "3"},        {"train.records", "16"},
            {"train.batch_size", "4"},   {"train.micro_batch", "2"},
            {"train.eval_records", "4"}, {"train.save_every", "1"},
            {"dp.sampler", "shuffled"},  {"optim.lr", "0.01"}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

std::map<std::string, at::Tensor> in(const std::filesystem::path& folder) {
  const io::WeightFolder weights(folder);
  std::map<std::string, at::Tensor> out;
  for (const auto& name : weights.names()) out[name] = weights.tensor(name).clone();
  return out;
}

bool same(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b) {
  for (const auto& [name, value] : a)
    if (!b.contains(name) || !at::equal(value, b.at(name))) return false;
  return !a.empty() && a.size() == b.size();
}

TEST(AveragedWeights, AreWhatIsExportedByEveryStrategy) {
  const io::Scratch runs;
  const auto run = [&](const std::string& name, int ranks, Words more) {
    more.insert(more.end(), {{"optim.optimizer", "sgd"}, {"optim.lr", "0.5"}});  // AdamW makes steps of roundings
    const auto trained = train_in(runs.path() / name, ranks, recipe(runs.path() / (name + "_out"), more));
    return std::pair{trained, in(runs.path() / (name + "_out"))};
  };
  std::map<std::string, at::Tensor> expected;
  for (const char* steps : {"0", "1", "2", "3"})
    for (const auto& [name, value] : run(text("plain", steps), 1, {{"train.steps", steps}}).second) {
      auto& mean = expected[name];
      mean = mean.defined() ? 0.75 * mean + 0.25 * value.to(at::kDouble) : value.to(at::kDouble);
    }
  const auto [trained, average] = run("averaged", 1, {{"optim.ema", "0.75"}});
  for (const auto& [name, value] : average)
    EXPECT_LT((value - expected.at(name)).abs().max().item<double>(), 1e-6) << name;
  const auto [without, last] = run("without", 1, {});
  EXPECT_TRUE(equal(trained, without)) << "the run is the same";
  EXPECT_FALSE(same(average, last));
  for (const char* strategy : {"ddp", "zero3"}) {
    const auto [plain, its_last] = run(text("plain_", strategy), 2, {{"shard.shard", strategy}});
    const auto [sharded, its_average] = run(strategy, 2, {{"shard.shard", strategy}, {"optim.ema", "0.75"}});
    EXPECT_TRUE(equal(sharded, plain)) << strategy;
    for (const auto& [name, value] : its_average)
      EXPECT_LT((value - average.at(name)).abs().max().item<double>(), 1e-4) << strategy << " " << name;
  }
  // The checkpoint alone says so too.
  const auto saved = checkpoint::Folder(runs.path() / "averaged/checkpoints").latest();
  ASSERT_TRUE(saved);
  const auto folder = checkpoint::Folder(runs.path() / "averaged/checkpoints").place(saved->entry);
  checkpoint::export_checkpoint(folder, runs.path() / "from_checkpoint", "{}");
  EXPECT_TRUE(same(in(runs.path() / "from_checkpoint"), average));
}

TEST(AveragedWeights, ContinueToTheBit) {
  const io::Scratch runs;
  const Words ema{{"optim.ema", "0.75"}, {"shard.shard", "zero3"}};
  const auto whole = train_in(runs.path() / "whole", 2, recipe(runs.path() / "whole_out", ema));
  const auto words = recipe(runs.path() / "parts_out", ema);
  EXPECT_EQ(train_in(runs.path() / "parts", 2, words, [](int64_t made) { return made == 1; }).result.steps, 2);
  const auto parts = train_in(runs.path() / "parts", 2, words);
  EXPECT_TRUE(equal(parts, whole));
  EXPECT_TRUE(same(in(runs.path() / "parts_out"), in(runs.path() / "whole_out")));
  EXPECT_EQ(parts.result.evaluation->loss, whole.result.evaluation->loss);
  EXPECT_NE(refused(runs.path() / "parts", recipe(runs.path() / "other", {{"train.steps", "4"}}))
                .find("choose the same optimizer and average (--ema)"),
            std::string::npos);
}

// An average that has hardly moved has the loss of the first weights: an untrained DiT predicts 0.
TEST(AveragedWeights, AreWhatIsEvaluated) {
  const io::Scratch runs;
  const auto loss = [&](const std::string& name, const char* lr, const char* ema) {
    const auto words = recipe(runs.path() / (name + "_out"), {{"optim.lr", lr}, {"optim.ema", ema}});
    return train_in(runs.path() / name, 1, words).result.evaluation->loss;
  };
  const auto untrained = loss("still", "0", "0");
  EXPECT_NEAR(loss("averaged", "0.01", "0.9999999"), untrained, 1e-5);
  EXPECT_GT(std::abs(loss("trained", "0.01", "0") - untrained), 1e-3);
}

}  // namespace
}  // namespace shade::train
