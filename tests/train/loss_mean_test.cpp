// What a language model's loss is a mean of: all tokens of the logical batch, as transformers has it, or records.
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "shade/models/registry.h"
#include "tests/data/folder.h"
#include "tests/train/distance.h"
#include "tests/train/training.h"

namespace shade::train {
namespace {

using models::LossMean;

constexpr int64_t kSamples = 5, kLength = 9, kIgnored = -100;
constexpr uint64_t kSeed = 11;

std::unique_ptr<models::Model> make(LossMean mean) {
  return models::make_model("qwen2-nano", {}, {.task = models::Task::lm, .loss_mean = mean});
}

// Texts of 2 to 9 tokens: a token of the shortest counts 8 times as much in a mean over records.
nn::Batch ragged(const models::Model& model) {
  auto batch = model.synthetic({.samples = kSamples, .seq_length = kLength}, 3, at::kFloat);
  const auto length = at::tensor({9, 2, 5, 3, 7}, at::kLong).unsqueeze(1);
  batch.mask_BT = (at::arange(kLength) < length).to(at::kLong);
  batch.labels = batch.labels.masked_fill(batch.mask_BT == 0, kIgnored);
  return batch;
}

struct Wanted {
  double loss = 0;
  Tensors gradients;
};

// Sum over tokens / number of tokens, one token at a time: every other label is ignored.
Wanted by_token() {
  const auto model = make(LossMean::record);
  nn::bind_all(model->parameters(), at::kFloat, kSeed);
  nn::PlainGradients sums;
  model->parameters().wiring.tap = &sums;
  const auto batch = ragged(*model);
  double loss = 0, tokens = 0;
  for (int64_t b = 0; b < kSamples; ++b) {
    for (int64_t t = 1; t < kLength; ++t) {
      auto alone = batch.rows(b, 1);
      const auto label = alone.labels[0][t].item<int64_t>();
      if (label == kIgnored) continue;
      alone.labels = at::full({1, kLength}, kIgnored, at::kLong);
      alone.labels[0][t] = label;
      const auto losses = model->losses(alone);
      loss += losses.item<double>();
      ++tokens;
      torch::autograd::backward({losses.sum()}, {});
    }
  }
  EXPECT_EQ(tokens, 8 + 1 + 4 + 2 + 6);
  Wanted out{.loss = loss / tokens};
  for (auto& weight : model->parameters().weights()) out.gradients.push_back(sums.of(weight) / tokens);
  return out;
}

// A step of plain descent at rate 1 subtracts the gradient.
TEST(LossMean, TokensOfAllRanksAndMicroBatchesCountAlike) {
  const auto wanted = by_token();
  struct World {
    int ranks;
    shard::Strategy strategy;
  };
  for (const auto& w : {World{1, shard::Strategy::none}, World{2, shard::Strategy::ddp},
                        World{2, shard::Strategy::zero2}, World{2, shard::Strategy::zero3}}) {
    test::run_ranks(w.ranks, test::As::threads, [&](comm::World& world) {
      shard::ShardConfig config;
      config.shard = w.strategy;
      const auto groups = shard::connect_groups(world, shard::policy_of(config, world.size()));
      for (const int64_t micro_batch : {1, 2, 5}) {
        const auto model = make(LossMean::token);
        shard::Runtime runtime(model->parameters(), groups, config);
        runtime.initialise(kSeed);
        Tensors before, moved;
        for (const auto& weight : model->parameters().weights()) before.push_back(runtime.whole(weight).clone());
        optim::OptimConfig descent;
        descent.optimizer = optim::Algorithm::sgd;
        descent.lr = 1;
        descent.momentum = descent.weight_decay = 0;
        const auto optimizer = optim::make_optimizer(descent);
        Step step(*model, runtime, *optimizer, optim::make_schedule(descent));
        // Dealt in turns: while one rank runs a micro-batch, the other runs an empty one.
        const auto batch = ragged(*model);
        std::vector<nn::Batch> micro;
        for (int64_t begin = 0, turn = 0; begin < kSamples; begin += micro_batch, ++turn) {
          const auto size = std::min(micro_batch, kSamples - begin);
          micro.push_back(batch.rows(begin, turn % world.size() == world.rank() ? size : 0));
        }
        const auto record = step.run(micro);
        EXPECT_NEAR(record.loss, wanted.loss, 1e-6);
        for (size_t i = 0; i < before.size(); ++i)
          moved.push_back(before[i] - runtime.whole(model->parameters().weights()[i]));
        EXPECT_LT(distance(moved, wanted.gradients), 2e-5)  // weights are fp32, gradients 1e-3 of them
            << to_string(w.strategy) << " micro-batch " << micro_batch;
      }
    });
  }
}

Words on_texts(const data::Folder& folder, const Words& more) {
  std::string lines;
  for (int i = 0; i < 24; ++i)
    lines += text("{\"text\": \"", std::string(static_cast<size_t>(1 + i % 8), 'x'), "\"}\n");
  folder.put("a.jsonl", lines);
  Words out{{"data.data_folder", folder.path().string()},
            {"model.vocab_size", "260"},
            {"model.task", "lm"},
            {"train.steps", "1"},
            {"train.batch_size", "8"},
            {"train.micro_batch", "3"},
            {"train.seq_length", "12"},
            {"train.eval_records", "6"},
            {"optim.lr", "0"}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

// Of the held-out records with the first weights, which a learning rate of 0 leaves as they are.
double token_mean_of_held_out(const data::Folder& folder) {
  models::SizeOverrides sizes;
  sizes.vocab_size = 260;
  const auto model = models::make_model("llama-nano", sizes, {.task = models::Task::lm, .loss_mean = LossMean::token});
  nn::bind_all(model->parameters(), at::kFloat, 0);
  const auto texts = data::open_dataset(folder.config(), 12, data::Task::lm);
  const auto batch = texts->batch(HeldOut::by_position(texts->size(), 6).evaluation_records());
  const at::NoGradGuard no_graph;
  return model->losses(batch).sum().item<double>() / (batch.labels.slice(1, 1) != kIgnored).sum().item<double>();
}

TEST(LossMean, EvaluationIsByTokenWithItsPerplexity) {
  const data::Folder folder;
  for (const auto* mean : {"token", "record"}) {
    for (const int ranks : {1, 2}) {
      const io::Scratch run;
      const auto words = on_texts(folder, {{"model.loss_mean", mean}, {"shard.shard", "ddp"}});
      const auto found = train_in(run.path(), ranks, words);
      const double wanted = token_mean_of_held_out(folder);
      EXPECT_NEAR(found.result.evaluation->loss, wanted, 1e-6) << mean;
      const auto& line = found.metrics.back();
      EXPECT_NEAR(line.value("eval_perplexity", 0.0), std::exp(wanted), 1e-3) << line;
      EXPECT_EQ(line["eval_records"], 6);
    }
  }
}

TEST(LossMean, PerplexityOfAPrivateRunIsMarked) {
  const data::Folder folder;
  const io::Scratch run;
  const auto found = train_in(
      run.path(), 1,
      on_texts(folder,
               {{"dp.dp", "auto"}, {"dp.sigma", "1"}, {"train.eval_records", "0"}, {"train.eval_rate", "0.25"}}));
  ASSERT_GT(found.result.evaluation->records, 0);
  EXPECT_FALSE(found.metrics.back().contains("eval_perplexity"));
  EXPECT_GT(found.metrics.back()["not_private"].value("eval_perplexity", 0.0), 1);
}

// The default: token, and the loss that is reported is the one that is descended.
TEST(LossMean, TheDefaultIsByToken) {
  const data::Folder folder;
  const auto loss = [&](const Words& more) {
    const io::Scratch run;
    return train_in(run.path(), 1, on_texts(folder, more)).losses().at(0);
  };
  const double standard = loss({});
  EXPECT_EQ(standard, loss({{"model.loss_mean", "token"}}));
  EXPECT_NE(standard, loss({{"model.loss_mean", "record"}}));
}

}  // namespace
}  // namespace shade::train
