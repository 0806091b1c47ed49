// The trainer: the same run for every world and micro-batch, budgets kept.
#include <cmath>

#include "tests/io/scratch.h"
#include "tests/train/small_training.h"

namespace shade::train {
namespace {

using io::Scratch;

const bool full = std::getenv("SHADE_FULL_MATRIX") != nullptr;

struct World {
  int ranks;
  std::string shard;
};

// Every strategy on 2 ranks; in full on 1, 2 and 4, and hsdp on 4.
std::vector<World> worlds() {
  std::vector<World> out{{2, "ddp"}, {2, "zero2"}, {2, "zero3"}};
  if (full)
    out.insert(out.end(),
               {{1, "ddp"}, {1, "zero2"}, {1, "zero3"}, {4, "ddp"}, {4, "zero2"}, {4, "zero3"}, {4, "hsdp"}});
  return out;
}

TEST(Trainer, SameLossesForEveryWorldAndStrategy) {
  for (const auto& kind : {kPrivate, kPlain}) {
    const Scratch alone;
    const auto wanted = train_in(alone.path(), 1, small(kind));
    ASSERT_EQ(wanted.losses().size(), 6u);
    double largest = 0, furthest = 0;
    for (const auto& [ranks, shard] : worlds()) {
      const Scratch here;
      const auto found = train_in(here.path(), ranks, small(with(kind, {{"shard.shard", shard}})));
      ASSERT_EQ(found.losses().size(), 6u);
      for (size_t i = 0; i < 6; ++i) {
        const double gap = std::abs(found.losses()[i] - wanted.losses()[i]);
        EXPECT_LT(gap, 1e-4) << ranks << " " << shard << " step " << i;
        largest = std::max(largest, gap);
      }
      EXPECT_LT(distance(found, wanted), 1e-4) << ranks << " " << shard;
      furthest = std::max(furthest, distance(found, wanted));
    }
    std::printf("%s, %zu worlds: losses differ by %.2g at most, weights by %.2g of their norm\n",
                kind == kPrivate ? "private" : "plain", worlds().size(), largest, furthest);
  }
}

// Batches are empty, so the weights move by the noise of each step and nothing else: by the same to the bit. The noise
// itself, assembled from the ranks' shards, is compared in private_test.cpp.
TEST(Trainer, SameNoiseToTheBitForEveryWorldAndStrategy) {
  const auto words = small(with(kPrivate, {{"dp.sample_rate", "1e-9"},
                                           {"dp.sigma", "20"},
                                           {"optim.optimizer", "sgd"},
                                           {"optim.weight_decay", "0"},
                                           {"train.steps", "3"}}));
  const Scratch alone, other;
  const auto wanted = train_in(alone.path(), 1, words);
  EXPECT_FALSE(equal(train_in(other.path(), 1, with(words, {{"dp.noise_seed", "4"}})), wanted));
  for (const auto& [ranks, shard] : worlds()) {
    const Scratch here;
    const auto found = train_in(here.path(), ranks, with(words, {{"shard.shard", shard}}));
    EXPECT_TRUE(equal(found, wanted)) << ranks << " " << shard << ": " << distance(found, wanted);
    for (const auto& line : found.metrics) EXPECT_EQ(line["not_private"]["samples"], 0);
  }
}

TEST(Trainer, MicroBatchesDontChangeTheResult) {
  const Scratch whole;
  const auto wanted = train_in(whole.path(), 1, small(with(kPrivate, {{"train.micro_batch", "64"}})));
  for (const auto* micro : {"1", "3", "auto"}) {
    const Scratch here;
    const auto found = train_in(here.path(), 1, small(with(kPrivate, {{"train.micro_batch", micro}})));
    EXPECT_LT(distance(found, wanted), 1e-5) << micro;
    EXPECT_EQ(found.micro_batch, std::string(micro) == "auto" ? 1 : std::stoi(micro)) << "an eighth of the batch";
  }
}

// The gradients of a first step are the same, so that weights differ by their decay alone.
TEST(Trainer, NormsDecayOnlyIfAllWeightsAreAskedTo) {
  for (const auto& [ranks, shard] : std::vector<World>{{1, "none"}, {2, "zero3"}}) {
    const auto words =
        small(with(kPlain, {{"shard.shard", shard}, {"optim.weight_decay", "0.5"}, {"train.steps", "1"}}));
    const Scratch a, b;
    const auto usual = train_in(a.path(), ranks, words);
    const auto all = train_in(b.path(), ranks, with(words, {{"optim.decay_all", "true"}}));
    for (size_t i = 0; i < usual.weights.size(); ++i)
      EXPECT_EQ(at::equal(usual.weights[i], all.weights[i]), usual.weights[i].dim() > 1) << shard << " " << i;
  }
}

TEST(Trainer, TheGradientNormIsLoggedBeforeItIsClipped) {
  const auto norms = [](const Trained& run) {
    std::vector<double> out;
    for (const auto& line : run.metrics) out.push_back(line.at("grad_norm"));
    return out;
  };
  const Scratch a, b, c, d;
  const auto clipped = train_in(a.path(), 1, small({{"optim.grad_clip", "0.01"}}));
  const auto sharded = train_in(b.path(), 2, small({{"dp.max_grad_norm", "0.01"}, {"shard.shard", "zero3"}}));
  const auto free = train_in(c.path(), 1, small({{"optim.grad_clip", "0"}}));
  ASSERT_EQ(norms(clipped).size(), 6u);
  EXPECT_GT(norms(clipped)[0], 0.1);
  EXPECT_EQ(norms(clipped)[0], norms(free)[0]);
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(norms(sharded)[i], norms(clipped)[i], 1e-4 * norms(clipped)[i]);
  EXPECT_LT(distance(sharded, clipped), 1e-4);
  EXPECT_GT(distance(free, clipped), 1e-5);
  for (const auto& file : std::filesystem::directory_iterator(a.path()))
    if (file.path().filename().string().starts_with("events.out"))
      EXPECT_NE(io::content(file.path()).find("train/grad_norm"), std::string::npos);
  for (const auto& line : train_in(d.path(), 1, small(kPrivate)).metrics)
    EXPECT_FALSE(line.contains("grad_norm") || line["not_private"].contains("grad_norm")) << "it follows the records";
}

TEST(Trainer, EmptyBatchesMakeNoisyStepsThatCount) {
  const Scratch a, b;
  const auto words = small(with(kPrivate, {{"dp.sample_rate", "1e-9"}, {"train.steps", "3"}}));
  const auto first = train_in(a.path(), 2, with(words, {{"shard.shard", "zero3"}}));
  for (const auto& line : first.metrics) EXPECT_EQ(line["not_private"]["samples"], 0);
  const auto other = train_in(b.path(), 1, with(words, {{"dp.noise_seed", "4"}}));
  EXPECT_GT(distance(first, other), 1e-3) << "noise, and nothing but noise, moved the weights";
  EXPECT_EQ(first.result.steps, 3);
  EXPECT_TRUE(first.result.spent.has_value());
  int64_t counted = 0;
  for (const auto& spent : checkpoint::Ledger::read(a.path() / "ledger")) counted += spent.steps;
  EXPECT_EQ(counted, 3);
}

// Without noise an empty batch has nothing to say: momentum and weight decay must not move the weights either.
TEST(Trainer, EmptyBatchesChangeNothingInRunsThatAreNotPrivate) {
  const auto words = small({{"dp.dp", "none"},
                            {"dp.sampler", "poisson"},
                            {"dp.sample_rate", "1e-9"},
                            {"optim.weight_decay", "0.5"},
                            {"optim.lr", "0.1"},
                            {"train.steps", "3"}});
  const Scratch untouched;
  const auto before = train_in(untouched.path(), 1, with(words, {{"train.steps", "0"}}));
  for (const auto& [ranks, shard] : worlds()) {
    const Scratch here;
    const auto after = train_in(here.path(), ranks, with(words, {{"shard.shard", shard}}));
    EXPECT_TRUE(equal(after, before)) << ranks << " " << shard << ": " << distance(after, before);
    EXPECT_EQ(after.result.steps, 3) << "they count, and the schedule goes on";
    ASSERT_EQ(after.metrics.size(), 3u);
    for (const auto& line : after.metrics) {
      EXPECT_EQ(line["samples"], 0);
      EXPECT_TRUE(line["loss"].is_null()) << line;
    }
    for (const auto& file : std::filesystem::directory_iterator(here.path()))
      if (file.path().filename().string().starts_with("events.")) {
        EXPECT_EQ(io::content(file.path()).find("train/loss"), std::string::npos);
      }
  }
}

// Records of 4 to 6 tokens in a text of 32 positions; on every rank.
TEST(Trainer, ThroughputCountsNoPadding) {
  for (const int ranks : {1, 2}) {
    const Scratch texts, here;
    std::string lines;
    for (int i = 0; i < 40; ++i) lines += "{\"text\": \"abcd\"}\n";
    texts.write("texts.jsonl", lines);
    const auto found = train_in(here.path(), ranks,
                                small({{"data.data_folder", texts.path().string()},
                                       {"model.vocab_size", "300"},
                                       {"shard.shard", ranks == 1 ? "none" : "ddp"},
                                       {"train.seq_length", "32"}}));
    for (const auto& line : found.metrics) {
      const double tokens = line["tokens_per_second"].get<double>() * line["step_ms"].get<double>() / 1000;
      EXPECT_NEAR(tokens, 5 * line["samples"].get<double>(), 1.01 * line["samples"].get<double>()) << line;
      EXPECT_GT(line["mfu"].get<double>(), 0) << "a peak is stated";
    }
  }
}

TEST(Trainer, ABudgetBelowAStepIsRefused) {
  const Scratch here;
  const auto words = refused(here.path(), small(with(kPrivate, {{"dp.max_epsilon", "0.01"}})));
  EXPECT_NE(words.find("epsilon 0.01 (--max-epsilon) does not allow a step"), std::string::npos) << words;
  EXPECT_FALSE(std::filesystem::exists(here.path() / "metrics.jsonl"));
}

TEST(Trainer, StopsBeforeTheBudgetWouldBeExceeded) {
  const Scratch here;
  const auto found = train_in(here.path(), 1, small(with(kPrivate, {{"dp.max_epsilon", "9"}, {"train.steps", "50"}})));
  EXPECT_EQ(found.result.ended, Ended::budget);
  ASSERT_TRUE(found.result.spent);
  EXPECT_LE(found.result.spent->epsilon, 9);
  Recipe recipe;
  recipe.dp.sigma = 0.7;
  recipe.work.batch_size = 8;
  recipe.budget.delta = 1e-3;
  recipe.dp.dp = privacy::MethodName::flash;
  const Budget unlimited(event_of(recipe, 40), recipe.budget);
  EXPECT_NEAR(unlimited.after(found.result.steps).epsilon, found.result.spent->epsilon, 1e-9);
  EXPECT_GT(unlimited.after(found.result.steps + 1).epsilon, 9) << "one more step would have been too many";
  // Asked again, there is nothing left.
  const auto again = train_in(here.path(), 1, small(with(kPrivate, {{"dp.max_epsilon", "9"}, {"train.steps", "50"}})));
  EXPECT_EQ(again.result.steps, found.result.steps);
  EXPECT_TRUE(equal(again, found));
}

TEST(Trainer, FindsTheNoiseForATarget) {
  const Scratch here;
  const auto found = train_in(here.path(), 1, small(with(kPrivate, {{"dp.sigma", "0"}, {"dp.target_epsilon", "5"}})));
  EXPECT_EQ(found.result.ended, Ended::finished);
  EXPECT_LE(found.result.spent->epsilon, 5);
  EXPECT_GT(found.result.spent->epsilon, 4.99);
  EXPECT_EQ(found.metrics.back()["epsilon"], found.result.spent->epsilon);
}

// What comes straight from the records is marked; an epsilon is said only of the sampler that ran.
TEST(Trainer, SaysNoMoreThanItMay) {
  const Scratch a, b;
  const auto honest = train_in(a.path(), 1, small(with(kPrivate, {{"train.steps", "1"}})));
  EXPECT_FALSE(honest.metrics[0].contains("loss"));
  EXPECT_TRUE(honest.metrics[0]["not_private"].contains("loss"));
  EXPECT_TRUE(honest.metrics[0].contains("epsilon_void")) << "seeded noise protects nobody";
  const auto shuffled = small(with(kPrivate, {{"train.steps", "1"}, {"dp.sampler", "shuffled"}}));
  const auto none = train_in(b.path(), 1, shuffled);
  EXPECT_FALSE(none.metrics[0].contains("epsilon"));
  EXPECT_FALSE(none.result.spent);
}

// All 40 records in every batch, no noise, plain descent: five times the public divisor is a fifth of the step,
// whatever was drawn.
TEST(Trainer, DividesByThePublicBatchSize) {
  const auto moved = [](const char* batch_size) {
    const Scratch first, then;
    const auto words = [&](const char* steps) {
      return small(with(kPrivate, {{"dp.sigma", "0"},
                                   {"dp.sample_rate", "1"},
                                   {"optim.optimizer", "sgd"},
                                   {"optim.weight_decay", "0"},
                                   {"train.batch_size", batch_size},
                                   {"train.steps", steps}}));
    };
    const auto found = train_in(then.path(), 1, words("1"));
    EXPECT_EQ(found.metrics[0]["not_private"]["samples"], 40);
    return distance(found, train_in(first.path(), 1, words("0")));
  };
  EXPECT_NEAR(moved("8") / moved("40"), 5, 1e-3);
}

TEST(Trainer, LearnsFromTheSampleCorpus) {
  const Scratch here;
  const auto found = train_in(here.path() / "run", 1,
                              {{"model.task", "lm"},
                               {"model.vocab_size", "260"},
                               {"data.data_folder", (here.path() / "corpus").string()},
                               {"data.packing", "packed"},
                               {"train.sample_corpus", "64KiB"},
                               {"train.steps", "60"},
                               {"train.batch_size", "16"},
                               {"train.seq_length", "32"},
                               {"train.micro_batch", "16"},
                               {"train.eval_records", "4"},
                               {"dp.sampler", "shuffled"},
                               {"optim.lr", "1e-2"}});
  EXPECT_GT(found.losses().front(), 5);
  EXPECT_LT(found.result.evaluation->loss, 3.2);
  EXPECT_GT(found.result.evaluation->records, 16) << "windows of four texts";
}

TEST(Trainer, RefusesWhatTheModelWasntMadeFor) {
  const Scratch here;
  EXPECT_EQ(refused(here.path() / "run", {{"train.seq_length", "131073"}, {"train.records", "1"}}),
            "--seq-length 131073 is longer than the 131072 positions of the model (max_position_embeddings)");
  const auto texts = here.path() / "texts";
  std::filesystem::create_directories(texts);
  here.write("texts/a.txt", "a text");
  EXPECT_NE(refused(texts / "run", {{"data.data_folder", texts.string()}}).find("lies in the data folder"),
            std::string::npos);
  const Words pretrained{{"model.weights", "its weights"}, {"data.data_folder", texts.string()}};
  const auto said = [&](const Words& more) { return refused(here.path() / "run", with(pretrained, more)); };
  EXPECT_NE(said({{"model.vocab_size", "1440"}}).find("a vocabulary of 1440 would read bytes"), std::string::npos);
  // Asked for, and a vocabulary of bytes: the next thing that is wrong is another one.
  for (const Words& fine :
       {Words{{"model.vocab_size", "1440"}, {"data.tokenizer", "bytes"}}, {{"model.vocab_size", "260"}}})
    EXPECT_EQ(said(fine),
              "--batch-size 64 is larger than the data, which has 1 records for training; choose a smaller one");
}

TEST(Trainer, ATestFolderWithOtherClassesIsRefused) {
  const Scratch here;
  for (const std::string folder : {"train", "test"}) std::filesystem::create_directories(here.path() / folder);
  here.write("train/a.jsonl", R"({"text": "a", "label": "sea"})"
                              "\n"
                              R"({"text": "b", "label": "sky"})"
                              "\n");
  here.write("test/a.jsonl", R"({"text": "a", "label": "sea"})"
                             "\n"
                             R"({"text": "b", "label": "air"})"
                             "\n");
  const auto said = refused(here.path() / "run", {{"model.task", "classify"},
                                                  {"model.vocab_size", "260"},
                                                  {"data.data_folder", (here.path() / "train").string()},
                                                  {"train.test_folder", (here.path() / "test").string()}});
  const auto test = (here.path() / "test").string();
  EXPECT_EQ(said.find(text("--test-folder ", test, ": ", test, "/a.jsonl:2: the data has the label 'air'")), 0u)
      << said;
  EXPECT_NE(said.find("the model's classes: 'sea', 'sky'; labels of the data: 'air', 'sea'"), std::string::npos)
      << said;
}

}  // namespace
}  // namespace shade::train
