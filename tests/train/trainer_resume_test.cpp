// A run that is continued: nothing is lost, nothing counts twice, and no protection is dropped.
#include <ATen/Parallel.h>

#include "tests/io/scratch.h"
#include "tests/train/small_training.h"

namespace shade::train {
namespace {

using io::Scratch;

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
        small(with(kind, {{"shard.shard", "zero3"}, {"train.eval_rate", "0.1"}, {"train.eval_every", "2"}}));
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

// A crash after step 5 of which step 4 was saved. The same world makes step 5 again, and it counts once; another world
// would make another step 5, so it gets other noise, and both count.
TEST(Trainer, AReplayCountsOnceAndAnythingElseAgain) {
  const auto words = small(with(kPrivate, {{"train.save_every", "4"}, {"train.eval_rate", "0.05"}}));
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
    Trainer trainer(world, resolve(recipe, config.stated(), world.size()), nullptr,
                    {.quiet = true, .stop = [&] { return crash(made++); }});
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

}  // namespace
}  // namespace shade::train
