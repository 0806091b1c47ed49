// The trainer: the same run for every world and micro-batch, budgets kept, nothing lost over a restart.
#include <ATen/Parallel.h>

#include <cmath>

#include "shade/data/sample_corpus.h"
#include "tests/io/scratch.h"
#include "tests/support/process.h"
#include "tests/train/training.h"

namespace shade::train {
namespace {

using io::Scratch;

const bool full = std::getenv("SHADE_FULL_MATRIX") != nullptr;

Words small(const Words& more) {
  Words out{{"model.task", "lm"},    {"train.steps", "6"},       {"train.batch_size", "8"}, {"train.seq_length", "12"},
            {"train.records", "40"}, {"train.micro_batch", "4"}, {"optim.lr", "1e-2"}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

const Words kPrivate{{"dp.dp", "flash_bookkeeping"}, {"dp.sigma", "0.7"}, {"dp.noise_seed", "3"}, {"dp.delta", "1e-3"}};
const Words kPlain{{"dp.sampler", "shuffled"}, {"optim.grad_clip", "1"}};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

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
    EXPECT_EQ(found.micro_batch, std::string(micro) == "auto" ? 8 : std::stoi(micro))
        << "the batch is all that limits it";
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

TEST(Trainer, StopsBeforeTheBudgetWouldBeExceeded) {
  const Scratch here;
  const auto found = train_in(here.path(), 1, small(with(kPrivate, {{"dp.max_epsilon", "9"}, {"train.steps", "50"}})));
  EXPECT_EQ(found.result.ended, Ended::budget);
  ASSERT_TRUE(found.result.spent);
  EXPECT_LE(found.result.spent->epsilon, 9);
  Recipe recipe;
  recipe.dp.sigma = 0.7;
  recipe.train.batch_size = 8;
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

// Whoever knows the seed can take the noise of those steps away: what comes after them has no epsilon either.
TEST(Trainer, StepsWithSeededNoiseAreNeverCountedAsProtected) {
  const Scratch here;
  const auto words = small(with(kPrivate, {{"train.save_every", "2"}, {"train.steps", "2"}}));
  EXPECT_TRUE(train_in(here.path(), 1, words).result.spent);
  const auto secret = train_in(here.path(), 1, with(words, {{"dp.noise_seed", "-1"}, {"train.steps", "4"}}));
  EXPECT_EQ(secret.result.steps, 4);
  EXPECT_FALSE(secret.result.spent);
  EXPECT_FALSE(secret.metrics.back().contains("epsilon"));
  EXPECT_TRUE(std::filesystem::exists(here.path() / "recipe.1.toml")) << "what the first steps were made with";
}

// Steps that have an epsilon would lose it.
TEST(Trainer, AProtectedRunIsNotContinuedWithoutProtection) {
  const Scratch here;
  const auto words = small(
      with(kPrivate, {{"dp.noise_seed", "-1"}, {"train.save_every", "2"}, {"train.steps", "2"}, {"train.keep", "9"}}));
  EXPECT_TRUE(train_in(here.path(), 1, words).result.spent);
  const auto further = with(words, {{"train.steps", "4"}});
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
           {"dp.sigma", "0"}, {"dp.sampler", "shuffled"}, {"dp.noise_seed", "3"}}) {
    const auto said = refused(here.path(), with(further, {{key, value}}));
    EXPECT_NE(said.find("has made 2 steps that have an epsilon"), std::string::npos) << key << ": " << said;
  }
  EXPECT_EQ(train_in(here.path(), 1, further).result.steps, 4);
}

// The ledger counts steps that were made and left; metrics of a run that goes back say so before its first step.
TEST(Trainer, MetricsStateWhatTheLedgerHas) {
  const Scratch here;
  const auto words = small(with(kPrivate, {{"dp.noise_seed", "-1"},
                                           {"train.save_every", "2"},
                                           {"train.keep", "9"},
                                           {"train.log_every", "1"},
                                           {"train.steps", "4"}}));
  const double spent = train_in(here.path(), 1, words).result.spent->epsilon;
  const auto back =
      train_in(here.path(), 1,
               with(words, {{"train.resume_from", "00001_step_2"}, {"dp.max_epsilon", std::to_string(spent + 1e-3)}}));
  EXPECT_EQ(back.result.steps, 2) << "the budget was used up by the steps that are left";
  EXPECT_EQ(back.metrics.back().at("step"), 2);
  EXPECT_NEAR(back.metrics.back().at("epsilon"), spent, 1e-9);
}

// A run that ends at every step and goes on is the run that never ended: weights, state, ledger, to the bit.
TEST(Trainer, ResumesToTheBit) {
  for (const auto& kind : {kPrivate, kPlain}) {
    const Scratch whole, parts;
    const auto words =
        small(with(kind, {{"shard.shard", "zero3"}, {"train.eval_records", "4"}, {"train.eval_every", "2"}}));
    const auto wanted = train_in(whole.path(), 2, words);
    for (int part = 0; part < 3; ++part) {
      const auto stopped = train_in(parts.path(), 2, words, [](int64_t made) { return made == 1; });
      EXPECT_EQ(stopped.result.steps, 2 * (part + 1));
    }
    const auto found = train_in(parts.path(), 2, words);
    EXPECT_TRUE(equal(found, wanted));
    const auto content = [](const Scratch& s, const char* file) { return io::content(s.path() / file); };
    EXPECT_EQ(content(parts, "ledger"), content(whole, "ledger"));
  }
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

// A crash after step 5 of which step 4 was saved. The same world makes step 5 again, and it counts once; another world
// would make another step 5, so it gets other noise, and both count.
TEST(Trainer, AReplayCountsOnceAndAnythingElseAgain) {
  const auto words = small(with(kPrivate, {{"train.save_every", "4"}, {"train.eval_records", "2"}}));
  const auto crash = [](int64_t made) -> bool {
    if (made == 5) throw Error("a crash");
    return false;
  };
  const auto counted = [](const Scratch& s) {
    int64_t steps = 0;
    for (const auto& spent : checkpoint::Ledger::read(s.path() / "ledger")) steps += spent.steps;
    return steps;
  };
  const auto crashed = [&](const Scratch& s) {
    Recipe recipe;
    Config config;
    recipe.declare(config);
    config.set("train.output", s.path().string());
    config.set("train.peak_gflops", "100");
    config.set("train.log_every", "1");
    set_words(config, words);
    at::set_num_threads(1);  // as ranks that are threads have it (tests/support/ranks.cpp)
    auto world = comm::World::connect({}, {});
    int64_t made = 0;
    Trainer trainer(world, recipe, config, nullptr, {.quiet = true, .stop = [&] { return crash(made++); }});
    EXPECT_THROW(trainer.run(), Error);
    world.leave();
  };
  const Scratch same, other, whole;
  crashed(same);
  EXPECT_EQ(counted(same), 5) << "step 5 has no line before its sum is complete";
  const auto replayed = train_in(same.path(), 1, words);
  EXPECT_EQ(replayed.steps(), (std::vector<int64_t>{1, 2, 3, 4, 5, 6})) << "step 5 is told once";
  EXPECT_EQ(counted(same), 6);
  const auto wanted = train_in(whole.path(), 1, words);
  EXPECT_TRUE(equal(replayed, wanted));
  crashed(other);
  const auto anew = train_in(other.path(), 2, with(words, {{"shard.shard", "ddp"}}));
  EXPECT_EQ(counted(other), 7) << "step 5 of two incarnations, step 6 of one";
  EXPECT_GT(distance(anew, wanted), 1e-3) << "other batches and other noise";
  EXPECT_GT(anew.result.spent->epsilon, wanted.result.spent->epsilon);
}

// Where batches are empty the noise is all there is: another world must not draw the same for steps it makes again.
TEST(Trainer, AnotherWorldDrawsOtherNoise) {
  const auto words = small(with(kPrivate, {{"dp.sample_rate", "1e-9"}, {"train.save_every", "2"}}));
  const Scratch whole, parts;
  const auto wanted = train_in(whole.path(), 1, words);
  train_in(parts.path(), 1, words, [](int64_t made) { return made == 1; });
  const auto found = train_in(parts.path(), 2, with(words, {{"shard.shard", "ddp"}}));
  EXPECT_GT(distance(found, wanted), 1e-2);
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

// A language model, written as it begins; from it, adapters that classify, trained on two ranks and written alone and
// added to their weights.
struct Adapters {
  Scratch scratch;
  Words words{{"model.task", "classify"},
              {"model.vocab_size", "260"},
              {"model.num_classes", "6"},
              {"data.data_folder", place("corpus/labelled")},
              {"data.cache_folder", place("cache")},
              {"train.test_folder", place("other/labelled")},
              {"train.batch_size", "32"},
              {"train.seq_length", "24"},
              {"train.micro_batch", "16"},
              {"dp.sampler", "shuffled"},
              {"optim.lr", "3e-2"}};
  Evaluation tested;

  Adapters() {
    data::write_sample_corpus(place("corpus"), KiB(64), 1);
    data::write_sample_corpus(place("other"), KiB(32), 2);
    run("first", 1, {{"model.task", "lm"}, {"train.steps", "0"}, {"train.export_folder", place("base")}});
    tested = run("run", 2,
                 {{"model.weights", place("base")},
                  {"model.lora_rank", "4"},
                  {"model.lora_alpha", "12"},
                  {"model.lora_targets", "q_proj,v_proj,down_proj"},
                  {"shard.shard", "zero3"},
                  {"train.steps", "60"},
                  {"train.export_folder", place("model")},
                  {"train.adapter_folder", place("adapter")}});
  }
  std::string place(const char* name) const { return (scratch.path() / name).string(); }
  Evaluation run(const char* name, int ranks, const Words& more) const {
    return train_in(scratch.path() / name, ranks, with(words, more)).result.test.value();
  }
};

TEST(Trainer, AnExportedAdapterIsTestedAlike) {
  const Adapters made;
  const auto& tested = made.tested;
  EXPECT_GT(*tested.accuracy, *tested.majority + 0.1);
  const auto config = read_json(made.place("model/config.json"));
  EXPECT_EQ(config["id2label"].size(), 6u);
  EXPECT_EQ(config["label2id"][config["id2label"]["5"].get<std::string>()], 5);
  EXPECT_EQ(config["pad_token_id"], 256);

  const auto again = made.run(
      "again", 1, {{"model.model", made.place("model")}, {"model.weights", made.place("model")}, {"train.steps", "0"}});
  EXPECT_NEAR(again.loss, tested.loss, 1e-5 * tested.loss);
  EXPECT_EQ(again.accuracy, tested.accuracy);
  EXPECT_EQ(again.majority, tested.majority);
  EXPECT_EQ(again.records, tested.records);

  for (const auto& [option, taken] : Words{{"train.export_folder", "model"}, {"train.adapter_folder", "adapter"}}) {
    const auto place = made.place(taken.c_str());
    const auto said = refused(made.place("other_run"), with(made.words, {{"model.lora_rank", "4"}, {option, place}}));
    EXPECT_NE(said.find(place), std::string::npos) << option << ": " << said;
  }
}

TEST(Trainer, AFinishedRunIsTestedAgainAndExportsNothing) {
  const Adapters made;
  const Words again{{"model.weights", made.place("base")},
                    {"model.lora_rank", "4"},
                    {"model.lora_alpha", "12"},
                    {"model.lora_targets", "q_proj,v_proj,down_proj"},
                    {"shard.shard", "zero3"},
                    {"train.steps", "60"},
                    {"train.export_folder", made.place("model")}};
  EXPECT_EQ(made.run("run", 2, again).accuracy, made.tested.accuracy);
  const auto said = refused(made.place("fewer"),
                            with(made.words, {{"model.weights", made.place("base")}, {"model.num_layers", "1"}}));
  EXPECT_NE(said.find("config.json: num_hidden_layers is 2, and 1 in llama-nano"), std::string::npos) << said;
}

TEST(Trainer, AnExportedAdapterIsReadByPeft) {
  const auto python = test::source_root() + "/.deps/peers/bin/python";
  if (!std::filesystem::exists(python) || test::run({python, "-c", "import peft"}).status != 0)
    GTEST_SKIP() << "no peft: run tools/bootstrap peers";
  const Adapters made;
  const auto seen = test::run({python, test::source_root() + "/tools/golden/check_adapter.py", made.place("base"),
                               made.place("adapter"), made.place("model")},
                              {.environment = {{"PYTHONDONTWRITEBYTECODE", "1"}}, .limit = Seconds(240)});
  EXPECT_EQ(seen.status, 0) << seen.output;
  EXPECT_NE(seen.output.find("PEFT agrees"), std::string::npos) << seen.output;
}

// A record written over with its file's size and time kept, the tokens deleted: steps made again would put the same
// noise on another sum.
TEST(Trainer, ARecordWrittenOverIsAnotherIncarnation) {
  const Scratch here;
  const auto folder = here.path() / "texts";
  std::filesystem::create_directories(folder);
  const auto write = [&](const std::string& last) {
    std::string lines;
    for (int i = 0; i < 39; ++i) lines += text("record ", i, "\n");
    return here.write("texts/a.txt", lines + last);
  };
  const auto file = write("the last");
  const auto time = std::filesystem::last_write_time(file);
  const auto words = small(with(kPrivate, {{"data.data_folder", folder.string()},
                                           {"data.text_unit", "line"},
                                           {"model.vocab_size", "260"},
                                           {"train.save_every", "2"}}));
  const auto stop = [](int64_t made) { return made == 1; };
  train_in(here.path() / "run", 1, words, stop);
  train_in(here.path() / "run", 1, words, stop);
  EXPECT_EQ(incarnation(here.path() / "run"), 0) << "the same records";
  write("The last");
  std::filesystem::last_write_time(file, time);
  std::filesystem::remove_all(folder / ".shade");
  train_in(here.path() / "run", 1, words);
  EXPECT_EQ(incarnation(here.path() / "run"), 1);
}

TEST(Trainer, RefusesWhatTheModelWasntMadeFor) {
  const Scratch here;
  EXPECT_EQ(refused(here.path() / "run", {{"train.seq_length", "131073"}, {"train.records", "1"}}),
            "--seq-length 131073 is longer than the 131072 positions of the model (max_position_embeddings)");
  here.write("a.txt", "a text");
  const Words pretrained{{"model.weights", "its weights"}, {"data.data_folder", here.path().string()}};
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
  EXPECT_NE(said.find("has the classes air, sea; data_folder has sea, sky"), std::string::npos) << said;
}

}  // namespace
}  // namespace shade::train
