// No noise is used on two sums: copies of a run, lost or cut ledgers, changes that identity knows and some that it
// doesn't. All runs have secret keys. Where batches are empty the weights are noise and nothing else.
#include <cmath>
#include <cstdlib>
#include <set>

#include "shade/base/json.h"
#include "shade/train/feed/made_up_data.h"
#include "tests/io/scratch.h"
#include "tests/train/training.h"

namespace shade::train {
namespace {

namespace fs = std::filesystem;
using io::Scratch;

Words small(const Words& more) {
  return with({{"model.task", "lm"},
               {"train.steps", "4"},
               {"train.batch_size", "8"},
               {"train.seq_length", "12"},
               {"train.records", "40"},
               {"train.micro_batch", "4"},
               {"train.save_every", "2"},
               {"optim.optimizer", "sgd"},
               {"optim.lr", "1e-1"},
               {"optim.weight_decay", "0"},
               {"dp.dp", "flash_bookkeeping"},
               {"dp.sigma", "2"},
               {"dp.delta", "1e-3"}},
              more);
}
const Words kEmpty{{"dp.sample_rate", "1e-9"}};

void place_copy(const fs::path& from, const fs::path& to) {
  fs::remove_all(to);
  fs::copy(from, to, fs::copy_options::recursive);
}

std::string failure(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& thrown) {
    return thrown.what();
  }
  return "no error";
}

bool stop_after_two(int64_t made) { return made == 1; }

// The share of weights in which two runs are the same; 0 where both were noised by different noise.
double same(const Trained& a, const Trained& b) {
  double equal = 0, all = 0;
  for (size_t i = 0; i < a.weights.size(); ++i) {
    equal += static_cast<double>((a.weights[i] == b.weights[i]).sum().item<int64_t>());
    all += static_cast<double>(a.weights[i].numel());
  }
  return equal / all;
}

// Two continuations of one state, by copying its folder: with the same settings, and with others that both share.
TEST(History, CopiesOfARunDrawNoiseOfTheirOwn) {
  for (const auto& changed : {Words{}, Words{{"train.micro_batch", "3"}}}) {
    const Scratch here;
    const auto first = here.path() / "f0", second = here.path() / "f1";
    train_in(first, 1, small(kEmpty), stop_after_two);
    place_copy(first, second);
    const auto a = train_in(first, 1, with(small(kEmpty), changed)),
               b = train_in(second, 1, with(small(kEmpty), changed));
    EXPECT_EQ(a.result.steps, 4);
    EXPECT_LT(same(a, b), 0.01) << "the two share noise";
    EXPECT_EQ(spent(first), 4);
  }
}

// Steps that were lost in a crash are made again to the bit, from the bytes in the ledger, and count once.
TEST(History, StepsInTheLedgerAreMadeAgainToTheBit) {
  const Scratch here;
  const auto run = here.path() / "run", kept = here.path() / "kept";
  const auto words = small({{"train.save_every", "2"}, {"train.steps", "5"}});
  train_in(run, 1, words, stop_after_two);
  place_copy(run / "checkpoints", kept);
  const auto whole = train_in(run, 1, with(words, {{"train.keep_key", "true"}}));
  EXPECT_EQ(spent(run), 5);
  place_copy(kept, run / "checkpoints");  // as if steps 2 to 4 had never been saved
  const auto again = train_in(run, 1, words);
  EXPECT_TRUE(equal(again, whole));
  EXPECT_EQ(spent(run), 5);
}

TEST(History, ALedgerCutToItsHeaderGetsANewKey) {
  const Scratch here;
  const auto run = here.path() / "run";
  const auto words = small(with(kEmpty, {{"train.keep_key", "true"}}));
  const auto first = train_in(run, 1, words);
  const auto ledger = io::content(run / "ledger"), key = io::content(run / "key");
  for (const auto& left : {std::string(), ledger.substr(0, ledger.find('\n') + 1)}) {
    fs::remove_all(run / "checkpoints");
    here.write("run/ledger", left);
    const auto second = train_in(run, 1, words);
    EXPECT_LT(same(first, second), 0.01) << "noise was used again";
    EXPECT_NE(io::content(run / "key"), key);
  }
}

// A variable by which a library rounds otherwise is part of what must be equal for a step to be made again.
TEST(History, AVariableThatChoosesKernelsMakesStepsNew) {
  for (const auto* name : {"MKL_CBWR", "OMP_SCHEDULE", "KMP_X", "DNNL_X", "ONEDNN_X", "ATEN_X", "GLIBC_TUNABLES"}) {
    const Scratch here;
    const auto run = here.path() / "run";
    const auto words =
        small(with(kEmpty, {{"train.keep_key", "true"}, {"train.steps", "2"}, {"train.restart", "true"}}));
    const auto first = train_in(run, 1, words);
    fs::remove_all(run / "checkpoints");
    ASSERT_EQ(::setenv(name, "COMPATIBLE", 1), 0);
    const auto second = train_in(run, 1, words);
    ::unsetenv(name);
    EXPECT_EQ(spent(run), 4) << name << ": counted as the same steps";
    EXPECT_LT(same(first, second), 0.01) << name;
  }
}

// Whatever decides a step's bits: a field of the recipe, the weights that training starts from (replaced in place).
TEST(History, AnotherFieldOrOtherFirstWeightsMakeStepsNew) {
  const Scratch here;
  const auto run = here.path() / "run", weights = here.path() / "weights";
  const auto words = small(with(kEmpty, {{"train.keep_key", "true"}, {"train.steps", "2"}, {"train.restart", "true"}}));
  const auto exported = [&](const char* seed, const std::string& name) {
    train_in(here.path() / ("made" + name), 1,
             {{"model.task", "lm"},
              {"train.steps", "0"},
              {"train.seed", seed},
              {"train.export_folder", (here.path() / name).string()}});
  };
  exported("1", "weights");
  exported("2", "others");
  const auto from = with(words, {{"model.weights", weights.string()}});
  train_in(run, 1, from);
  EXPECT_EQ(spent(run), 2);
  fs::remove_all(run / "checkpoints");
  train_in(run, 1, from);
  EXPECT_EQ(spent(run), 2) << "the same steps";
  fs::remove_all(run / "checkpoints");
  place_copy(here.path() / "others", weights);
  train_in(run, 1, from);
  EXPECT_EQ(spent(run), 4) << "other first weights";
  fs::remove_all(run / "checkpoints");
  train_in(run, 1, with(from, {{"optim.momentum", "0.5"}}));
  EXPECT_EQ(spent(run), 6) << "another field";
}

// Records that change without anything else changing: what identity can't see, the sum of the step shows.
class Shifty final : public data::Dataset {
 public:
  Shifty(const models::Model& model, uint64_t seed) : own_(model, 40, 12, seed) {}
  int64_t size() const override { return own_.size(); }
  nn::Batch batch(std::span<const int64_t> records) const override { return own_.batch(records); }
  std::string describe() const override { return "40 records"; }
  std::string fingerprint() const override { return "always the same"; }
  uint64_t content_of(int64_t record) const override { return own_.content_of(record); }

 private:
  MadeUpData own_;
};

std::string trained_on(const fs::path& run, uint64_t seed, const Words& words, std::vector<at::Tensor>* weights) {
  std::string said;
  test::run_ranks(1, test::As::threads, [&](comm::World& world) {
    Recipe recipe;
    Config config;
    recipe.declare(config);
    set_words(config, with({{"train.output", run.string()}, {"train.peak_gflops", "100"}}, words));
    const auto shape = models::make_model(recipe.model.model, recipe.sizes, recipe.model.options());
    said = failure([&] {
      Trainer trainer(world, resolve(recipe, config.stated(), world.size()), std::make_unique<Shifty>(*shape, seed),
                      {.quiet = true});
      trainer.run();
      for (const auto& weight : trainer.model().parameters().weights())
        weights->push_back(trainer.runtime().whole(weight).clone());
    });
  });
  return said;
}

TEST(History, AStepMadeAgainOnOtherRecordsStopsBeforeItsNoise) {
  const Scratch here;
  const auto run = here.path() / "run";
  const auto words =
      small({{"train.keep_key", "true"}, {"train.steps", "2"}, {"dp.sample_rate", "1"}, {"train.restart", "true"}});
  std::vector<at::Tensor> first, second;
  EXPECT_EQ(trained_on(run, 1, words, &first), "no error");
  fs::remove_all(run / "checkpoints");
  const auto said = trained_on(run, 2, words, &second);
  EXPECT_NE(said.find("step 0 was made before, and its sum of clipped gradients was another one"), std::string::npos)
      << said;
  EXPECT_TRUE(second.empty());
  EXPECT_EQ(spent(run), 2);
  EXPECT_EQ(trained_on(run, 2, words, &second), "no error") << "then they are other steps";
  EXPECT_EQ(spent(run), 4);
  EXPECT_FALSE(at::equal(first[0], second[0]));
}

// Where sums can't be reproduced to the bit, as on accelerators, every start is an incarnation of its own.
TEST(History, NothingIsMadeAgainWhereSumsAreNotReproducible) {
  for (const bool replayable : {true, false}) {
    const Scratch here;
    auto world = comm::World::connect({}, {});
    RunFolder folder(here.path());
    std::vector<privacy::NoiseKey> keys;
    for (int start = 0; start < 2; ++start) {
      History history(folder, world.group(text("control", start)), {.replayable = replayable});
      const auto known = history.look("exact", {{"sigma", 1.0}}, std::nullopt);
      EXPECT_EQ(known.made, start == 1 && replayable ? 2 : 0);
      history.start();
      for (int64_t step = 0; step < 2; ++step) history.spend(step, hash::digest_of(text(step)));
      keys.push_back(history.key_of(0));
      EXPECT_NE(history.key_of(5), privacy::NoiseKey{});
      EXPECT_EQ(history.origin(0), std::nullopt);
      EXPECT_EQ(history.origin(2)->step, 2);
    }
    EXPECT_EQ(keys[0] == keys[1], replayable);
    EXPECT_EQ(spent(here.path()), replayable ? 2 : 4);
    world.leave();
  }
}

// Whoever knows all records but one could compute a plain hash of both data sets.
TEST(History, ACheckpointTellsNothingOfItsRecords) {
  const Scratch here;
  std::set<std::string> seen;
  for (const std::string name : {"a", "b"}) {
    const auto run = here.path() / name;
    train_in(run, 1, small(kEmpty), stop_after_two);
    const checkpoint::Folder folder(run / "checkpoints");
    const auto caller = read_json(folder.place(folder.latest().value().entry) / "manifest.json")["caller"];
    for (const auto* key : {"identity", "data"}) seen.insert(caller[key].get<std::string>());
    const auto ledger = io::content(run / "ledger");
    const auto exact = ledger.find("\"exact\":\"") + 9;
    seen.insert(ledger.substr(exact, 64));
  }
  EXPECT_EQ(seen.size(), 6u) << "the same run with another key looks the same";
}

TEST(History, TheKeyOfAFinishedRunIsDeleted) {
  const Scratch here;
  const auto run = here.path() / "run";
  const auto words = small(with(kEmpty, {{"train.eval_rate", "0.1"}}));
  train_in(run, 1, words, stop_after_two);
  EXPECT_TRUE(fs::exists(run / "key")) << "it may go on";
  const auto finished = train_in(run, 1, words);
  EXPECT_FALSE(fs::exists(run / "key"));
  const auto ledger = io::content(run / "ledger");
  const auto looked = train_in(run, 1, words);
  EXPECT_EQ(looked.result.steps, 4) << "evaluating needs no key";
  EXPECT_EQ(io::content(run / "ledger"), ledger);
  EXPECT_FALSE(fs::exists(run / "key"));
  const auto more = train_in(run, 1, with(words, {{"train.steps", "6"}, {"train.keep_key", "true"}}));
  EXPECT_EQ(more.result.steps, 6);
  EXPECT_EQ(spent(run), 6);
  EXPECT_TRUE(fs::exists(run / "key")) << "--keep-key";
  EXPECT_LT(same(more, finished), 0.01);
}

// Nothing is saved, evaluated or exported of such weights.
TEST(Trainer, StopsOnWeightsThatAreNotFinite) {
  const Scratch here;
  const auto run = here.path() / "run";
  train_in(run, 1, small(kEmpty), stop_after_two);
  const auto before = remains(run);
  std::string said;
  test::run_ranks(1, test::As::threads, [&](comm::World& world) {
    Recipe recipe;
    Config config;
    recipe.declare(config);
    set_words(config,
              small(with(
                  kEmpty,
                  {{"train.output", run.string()}, {"optim.lr", "1e38"}, {"dp.sigma", "2000"}, {"train.steps", "9"}})));
    said = failure(
        [&] { Trainer(world, resolve(recipe, config.stated(), world.size()), nullptr, {.quiet = true}).run(); });
  });
  EXPECT_NE(said.find("weights are not finite"), std::string::npos) << said;
  EXPECT_NE(said.find("The last checkpoint stays (step 2)"), std::string::npos) << said;
  auto after = remains(run);
  EXPECT_NE(after["ledger"], before.at("ledger")) << "what was spent stays spent";
  after["ledger"] = before.at("ledger");
  EXPECT_EQ(after == before, true);
}

// Its ledger and its keys begin once.
TEST(History, ATrainerRunsOnce) {
  const io::Scratch here;
  test::run_ranks(1, test::As::threads, [&](comm::World& world) {
    Recipe recipe;
    Config config;
    recipe.declare(config);
    set_words(config, small(with(kEmpty, {{"train.output", (here.path() / "run").string()}})));
    Trainer trainer(world, resolve(recipe, config.stated(), world.size()), nullptr, {.quiet = true});
    trainer.run();
    EXPECT_NE(test::fault([&] { trainer.run(); }).find("a Trainer runs once"), std::string::npos);
  });
}

// What is computed from the records without noise is under one name, in metrics and in TensorBoard.
TEST(Trainer, WhatIsNotPrivateIsUnderThatName) {
  const Scratch here;
  const auto run = here.path() / "run";
  const auto found = train_in(run, 1, small({{"train.eval_rate", "0.1"}, {"train.eval_every", "2"}}));
  size_t evaluations = 0;
  for (const auto& line : found.metrics) {
    for (const auto& [key, value] : line.items())
      EXPECT_TRUE((std::set<std::string>{"step", "lr", "clip_norm", "epsilon", "delta", "accountant", "privacy_unit",
                                         "not_private"}
                       .contains(key)))
          << key;
    evaluations += line["not_private"].contains("eval_loss") ? 1 : 0;
  }
  EXPECT_EQ(evaluations, 2u);
  for (const auto* key :
       {"loss", "samples", "clipped", "step_ms", "data_ms", "load_ms", "memory_bytes", "tokens_per_second", "mfu"})
    EXPECT_TRUE(found.metrics[0]["not_private"].contains(key)) << key;
  std::string events;
  for (const auto& file : fs::directory_iterator(run))
    if (file.path().filename().string().starts_with("events.")) events += io::content(file.path());
  for (const std::string tag : {"train/loss", "train/tokens_per_second", "train/memory_mib", "eval/loss"}) {
    EXPECT_NE(events.find("not_private/" + tag), std::string::npos) << tag;
    for (auto at = events.find(tag); at != events.npos; at = events.find(tag, at + 1))
      EXPECT_EQ(events.substr(at - std::min<size_t>(at, 12), std::min<size_t>(at, 12)), "not_private/") << tag;
  }
}

}  // namespace
}  // namespace shade::train
