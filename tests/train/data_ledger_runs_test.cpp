// Runs of training that share a data ledger: reserved ahead, counted once, stopped by the cap, refused where nobody
// counts.
#include "shade/train/budget/data_ledger.h"

#include "shade/io/errors.h"
#include "tests/io/scratch.h"
#include "tests/train/training.h"

namespace shade::train {
namespace {

namespace fs = std::filesystem;

constexpr privacy::Cap kCap{.epsilon = 6, .delta = 1e-5};
const privacy::Mechanism kStep{.sample_rate = 0.2, .noise_multiplier = 2};  // of run_words

Words run_words(const fs::path& ledger, const Words& more = {}) {
  Words out{{"model.model", "linear-nano"},
            {"train.steps", "6"},
            {"train.batch_size", "8"},
            {"train.records", "40"},
            {"train.micro_batch", "8"},
            {"train.save_every", "2"},
            {"optim.optimizer", "sgd"},
            {"dp.dp", "auto"},
            {"dp.sigma", "2"},
            {"dp.delta", "1e-3"},
            {"dp.sample_rate", "0.2"},
            {"dp.accountant", "rdp"},
            {"dp.data_ledger", ledger.string()}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

class DataLedgerRuns : public testing::Test {
 protected:
  void SetUp() override { DataLedger::create(file_, kCap); }
  fs::path place(const std::string& name) const { return scratch_.path() / name; }
  int64_t steps() const {
    int64_t sum = 0;
    for (const auto& entry : DataLedger(file_).read().entries) sum += entry.steps;
    return sum;
  }

  const io::Scratch scratch_;
  const fs::path file_ = place("data.ledger");
};

TEST_F(DataLedgerRuns, TwoRunsAddUpAndTheThirdIsStoppedByTheCap) {
  const auto room = DataLedger(file_).read().allowed(kStep, 1'000'000);
  EXPECT_EQ(train_in(place("a"), 1, run_words(file_)).result.steps, 6);
  EXPECT_EQ(train_in(place("b"), 2, run_words(file_, {{"train.steps", "10"}, {"dp.sigma", "4"}})).result.steps, 10);
  const auto books = DataLedger(file_).read();
  ASSERT_EQ(books.entries.size(), 2U);
  EXPECT_EQ(books.entries[0].steps, 6);
  EXPECT_EQ(books.entries[1].steps, 10);
  EXPECT_EQ(books.entries[1].spender.mechanism.noise_multiplier, 4);
  const auto left = books.allowed(kStep, 1'000'000);
  EXPECT_LT(left, room - 6);
  const auto third = train_in(place("c"), 1, run_words(file_, {{"train.steps", "100000"}}));
  EXPECT_EQ(third.result.steps, left);
  EXPECT_EQ(third.result.ended, Ended::budget);
  EXPECT_EQ(spent(place("c")), left) << "no step beyond the cap was made";
  const auto fault = refused(place("d"), run_words(file_));
  EXPECT_NE(fault.find("leaves no budget for a step with sigma 2 at sample rate 0.2. Nothing was trained"),
            std::string::npos)
      << fault;
}

TEST_F(DataLedgerRuns, ARunThatGoesOnCountsOnce) {
  const auto words = run_words(file_, {{"train.steps", "200"}});
  const auto first = train_in(place("a"), 1, words, [](int64_t made) { return made == 2; });
  EXPECT_EQ(first.result.ended, Ended::asked);
  EXPECT_EQ(steps(), first.result.steps) << "what was reserved beyond is given back";
  const auto shorter = run_words(file_, {{"train.steps", "7"}});
  EXPECT_EQ(train_in(place("a"), 1, shorter).result.steps, 7);
  EXPECT_EQ(steps(), 7);
  EXPECT_EQ(DataLedger(file_).read().entries.size(), 2U) << "a stretch for each process";
  EXPECT_EQ(train_in(place("a"), 1, shorter).result.steps, 7) << "there is nothing left to do";
  EXPECT_EQ(steps(), 7);
}

// Steps of the ledger that are made again to the bit cost nothing; those with noise of their own count again.
TEST_F(DataLedgerRuns, StepsMadeAgainCountByTheirNoise) {
  const auto words =
      run_words(file_, {{"train.save_every", "0"}, {"train.save_interval", "0s"}, {"train.keep_key", "true"}});
  train_in(place("a"), 1, words);
  EXPECT_EQ(steps(), 6);
  fs::remove_all(place("a") / "checkpoints");
  train_in(place("a"), 1, words);
  EXPECT_EQ(steps(), 6) << "the same noise on the same sums";
  fs::remove_all(place("a") / "checkpoints");
  auto other = words;
  other.push_back({"optim.lr", "1e-2"});
  other.push_back({"train.restart", "true"});
  train_in(place("a"), 1, other);
  EXPECT_EQ(steps(), 12) << "noise of their own";
}

TEST_F(DataLedgerRuns, CopiesOfARunCountTwice) {
  const auto words = run_words(file_);
  train_in(place("a"), 1, words, [](int64_t made) { return made == 1; });
  fs::copy(place("a"), place("b"), fs::copy_options::recursive);
  const auto before = steps();
  train_in(place("a"), 1, words);
  train_in(place("b"), 1, words);
  EXPECT_EQ(steps(), before + 2 * (6 - before));
}

TEST_F(DataLedgerRuns, RefusesWhatCanNotBeCounted) {
  EXPECT_NE(refused(place("a"), run_words(place("none"))).find("there is no data ledger"), std::string::npos);
  EXPECT_NE(refused(place("b"), run_words(file_, {{"dp.noise_seed", "3"}})).find("its noise has a seed"),
            std::string::npos);
  EXPECT_NE(refused(place("c"), run_words(file_, {{"dp.sampler", "shuffled"}, {"dp.sample_rate", "0"}}))
                .find("can't count what this run spends"),
            std::string::npos);
  EXPECT_EQ(steps(), 0);
}

TEST_F(DataLedgerRuns, ARunStaysWithItsDataLedger) {
  train_in(place("a"), 1, run_words(file_, {{"train.steps", "2"}}));
  EXPECT_NE(refused(place("a"), run_words("")).find("this run spends from the data ledger"), std::string::npos);
  const auto other = place("other.ledger");
  DataLedger::create(other, kCap);
  EXPECT_NE(refused(place("a"), run_words(other)).find("is another one"), std::string::npos);
  train_in(place("b"), 1, run_words("", {{"train.steps", "2"}}));
  EXPECT_NE(refused(place("b"), run_words(file_)).find("they were made without it"), std::string::npos)
      << "steps that nobody counted";
}

TEST_F(DataLedgerRuns, ARunNoticesThatItsDataLedgerWasPutBack) {
  const auto empty = io::content(file_);
  train_in(place("a"), 1, run_words(file_, {{"train.steps", "2"}}));
  scratch_.write("data.ledger", empty);
  EXPECT_NE(refused<io::FormatError>(place("a"), run_words(file_)).find("has lost or changed line"), std::string::npos);
}

// Another run takes the rest of the cap while this one is under way.
TEST_F(DataLedgerRuns, ARunEndsInOrderWhenOthersSpendTheRest) {
  const auto found = train_in(place("a"), 1, run_words(file_, {{"train.steps", "30"}}), [&](int64_t made) {
    if (made == 3) DataLedger(file_).reserve({.run = "other", .stretch = "other", .mechanism = kStep}, 1'000'000);
    return false;
  });
  EXPECT_EQ(found.result.ended, Ended::budget);
  EXPECT_GE(found.result.steps, 4);
  EXPECT_LT(found.result.steps, 30);
  EXPECT_EQ(spent(place("a")), found.result.steps);
  EXPECT_EQ(checkpoint::Folder(place("a") / "checkpoints").latest().value().entry.step, found.result.steps)
      << "what was paid for is saved";
}

// The step before the end was not the last one when it was made, so nothing looked at its weights.
TEST_F(DataLedgerRuns, ARunThatOthersEndSavesNoWeightsThatAreNotFinite) {
  const auto words = run_words(
      file_, {{"train.steps", "30"}, {"train.save_every", "0"}, {"train.log_every", "100"}, {"optim.lr", "1e40"}});
  std::string said;
  test::run_ranks(1, test::As::threads, [&](comm::World& world) {
    Recipe recipe;
    Config config;
    recipe.declare(config);
    set_words(config, words);
    config.set("train.output", place("a").string());
    Trainer trainer(world, resolve(recipe, config.stated(), world.size()), nullptr,
                    {.quiet = true, .stop = [&, made = 0]() mutable {
                       if (++made == 3)
                         DataLedger(file_).reserve({.run = "other", .stretch = "other", .mechanism = kStep}, 1'000'000);
                       return false;
                     }});
    said = test::fault<Error>([&] { trainer.run(); });
  });
  EXPECT_NE(said.find("weights are not finite"), std::string::npos) << said;
  EXPECT_FALSE(checkpoint::Folder(place("a") / "checkpoints").latest());
}

// Rank 0 alone has the file. If it can't be written, every rank says so.
TEST_F(DataLedgerRuns, AFailureEndsAllRanks) {
  std::vector<std::string> said(2);
  test::run_ranks(2, test::As::threads, [&](comm::World& world) {
    Recipe recipe;
    Config config;
    recipe.declare(config);
    set_words(config, run_words(file_, {{"train.steps", "200"}}));
    config.set("train.output", place("a").string());
    Trainer trainer(world, resolve(recipe, config.stated(), world.size()), nullptr,
                    {.quiet = true, .stop = [&, made = 0]() mutable {
                       if (++made == 3 && world.rank() == 0) fs::remove(file_);
                       return false;
                     }});
    try {
      trainer.run();
    } catch (const std::exception& fault) {
      said[static_cast<size_t>(world.rank())] = fault.what();
    }
  });
  for (const auto& words : said)
    EXPECT_NE(words.find("reserving steps in the data ledger failed on rank 0: cannot open the data ledger"),
              std::string::npos)
        << words;
}

}  // namespace
}  // namespace shade::train
