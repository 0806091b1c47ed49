// Runs that protect a user: who is drawn, what each brings, who is held out, and what is said of it.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "shade/io/errors.h"
#include "shade/models/registry.h"
#include "shade/train/budget/budget.h"
#include "shade/train/feed/records.h"
#include "tests/data/folder.h"
#include "tests/train/training.h"

namespace shade::train {
namespace {

constexpr int64_t kUsers = 40, kMost = 3;

// User i has 1 + i % 6 records; those of one user are not neighbours.
void put_letters(const data::Folder& folder) {
  std::string lines;
  for (int turn = 0; turn < 6; ++turn)
    for (int i = 0; i < kUsers; ++i)
      if (turn <= i % 6)
        lines += text(R"({"text": "letter )", turn, " of ", i * 7919 % 1000,
                      std::string(static_cast<size_t>(i % 7), '!'), R"(", "from": "user )", i, "\"}\n");
  folder.put("a.jsonl", lines);
}

std::unique_ptr<data::TextDataset> letters(const data::Folder& folder) {
  auto config = folder.config();
  config.fields.user = "from";
  return data::open_dataset(config, 24, data::Task::lm);
}

privacy::PrivacyEvent event(double rate = 0.5) {
  return {.mechanism = {.sample_rate = rate, .noise_multiplier = 1},
          .divisor = 8,
          .unit = privacy::PrivacyUnit::user,
          .steps = 4,
          .delta = 1e-3};
}

// What all ranks compute in a step: the ids of each user's records.
using Drawn = std::map<int64_t, std::multiset<std::vector<int64_t>>>;
Drawn drawn(const data::Dataset& data, const HeldOut& split, int ranks, int64_t step, const MicroShapes& shapes,
            uint64_t seed = 1) {
  Drawn out;
  size_t micro_steps = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const Loader loader(data, {.split = split,
                               .event = event(),
                               .shapes = shapes,
                               .max_records_per_user = kMost,
                               .ranks = ranks,
                               .rank = rank,
                               .key = [&](int64_t) { return privacy::seeded_key(seed); }});
    const auto loaded = loader.load(step);
    EXPECT_TRUE(rank == 0 || micro_steps == loaded.micro_batches.size()) << "as many on every rank";
    micro_steps = loaded.micro_batches.size();
    for (const auto& batch : loaded.micro_batches) {
      EXPECT_EQ(batch.samples(), std::ssize(batch.records));
      EXPECT_LE(batch.rows_per_sample, 4) << "the next power of two, or as many as there may be";
      for (int64_t i = 0; i < batch.samples(); ++i) {
        const auto user = batch.records[static_cast<size_t>(i)];
        EXPECT_FALSE(out.contains(user)) << "user " << user << " is in two places";
        for (auto row = i * batch.rows_per_sample; row < (i + 1) * batch.rows_per_sample; ++row)
          if (batch.present_B[row].item<int64_t>() == 1)
            out[user].insert(
                data::row(batch.ids_BT.index({row}).masked_select(batch.mask_BT[row] == 1).unsqueeze(0), 0));
      }
    }
  }
  return out;
}

TEST(UserLoader, DealsEveryDrawnUserOnceWithAtMostKRecords) {
  const data::Folder folder;
  put_letters(folder);
  const auto data = letters(folder);
  const auto split = HeldOut::by_user(*data, 0.15);
  ASSERT_GT(split.evaluation(), 0);
  const MicroShapes shapes({.samples = 4, .full = {kMost, 24}, .grid = true});
  bool fewer = false, whole = false, other_records = false, other_users = false;
  for (int64_t step = 0; step < 6; ++step) {
    const auto all = drawn(*data, split, 1, step, shapes);
    EXPECT_GT(all.size(), 5u);
    for (const auto& [user, records] : all) {
      const auto has = std::ssize(split.users()->records_of(user));
      EXPECT_EQ(std::ssize(records), std::min(has, kMost)) << "all of them, or as many as may be";
      fewer = fewer || has > kMost;
      whole = whole || has <= kMost;
    }
    for (const int ranks : {2, 3}) EXPECT_EQ(drawn(*data, split, ranks, step, shapes), all) << ranks;
    for (const auto& [user, records] : drawn(*data, split, 1, step + 100, shapes))
      if (all.contains(user) && all.at(user) != records) other_records = true;
    const auto by_other_key = drawn(*data, split, 1, step, shapes, 2);
    for (const auto& [user, records] : by_other_key) other_users = other_users || !all.contains(user);
  }
  EXPECT_TRUE(fewer && whole && other_users);
  EXPECT_TRUE(other_records) << "drawn anew in each step";
}

// Everybody is drawn, so only the records of each can tell keys apart.
TEST(UserLoader, RecordsAreDrawnByTheSecretKey) {
  const data::Folder folder;
  put_letters(folder);
  const auto data = letters(folder);
  const auto split = HeldOut::by_user(*data, 0);
  const auto with = [&](uint64_t seed) {
    const Loader loader(
        *data, {.split = split,
                .event = event(1),
                .shapes = MicroShapes({.samples = kUsers, .full = {kMost, 24}, .padding = Padding::max_length}),
                .max_records_per_user = kMost,
                .key = [&](int64_t) { return privacy::seeded_key(seed); }});
    return loader.load(0).micro_batches.at(0).ids_BT;
  };
  EXPECT_TRUE(with(1).equal(with(1)));
  EXPECT_FALSE(with(1).equal(with(2)));
}

TEST(UserSplit, HoldsOutWholeUsersAndOneMoreMovesNoOther) {
  const auto held_out = [](const std::string& more) {
    const data::Folder folder;
    put_letters(folder);
    folder.put("0.jsonl", more);
    auto config = folder.config();
    config.fields.user = "from";
    const auto data = data::open_dataset(config, 24, data::Task::lm);
    const auto split = HeldOut::by_user(*data, 0.2);
    std::set<data::UserId> out, trained;
    for (const auto record : split.evaluation_records()) out.insert(*data->user_of(record));
    for (int64_t i = 0; i < split.training(); ++i) trained.insert(*data->user_of(split.training_record(i)));
    for (const auto& user : out) EXPECT_FALSE(trained.contains(user));
    EXPECT_EQ(std::ssize(trained), split.users()->size());
    EXPECT_EQ(split.training(privacy::PrivacyUnit::user), split.users()->size());
    return out;
  };
  const auto without = held_out("");
  EXPECT_GE(without.size(), 3u);
  for (const auto* name : {"zoe", "adam", "eve"}) {
    auto with = held_out(text(R"({"text": "hello", "from": ")", name, "\"}\n"));
    with.erase(data::user_id(name));
    EXPECT_EQ(with, without) << name;
  }
}

Words on(const data::Folder& folder, const Words& more = {}) {
  Words out{{"data.data_folder", folder.path().string()},
            {"data.user_field", "from"},
            {"model.vocab_size", "260"},
            {"model.task", "lm"},
            {"train.seq_length", "24"},
            {"train.batch_size", "10"},
            {"train.micro_batch", "3"},
            {"train.steps", "4"},
            {"train.eval_rate", "0.15"},
            {"optim.optimizer", "sgd"},
            {"optim.lr", "0.5"},
            {"dp.dp", "auto"},
            {"dp.sigma", "0.5"},
            {"dp.max_grad_norm", "0.1"},
            {"dp.delta", "1e-3"},
            {"dp.noise_seed", "7"},
            {"dp.privacy_unit", "user"},
            {"dp.max_records_per_user", "3"}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

TEST(UserRun, IsTheSameOnAnyNumberOfRanks) {
  const data::Folder folder;
  put_letters(folder);
  const io::Scratch run;
  const auto alone = train_in(run.path() / "1", 1, on(folder));
  ASSERT_EQ(alone.losses().size(), 4u);
  for (const int ranks : {2, 4}) {
    const auto several = train_in(run.path() / std::to_string(ranks), ranks, on(folder, {{"shard.shard", "zero3"}}));
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(several.losses()[i], alone.losses()[i], 1e-4);
    EXPECT_LT(distance(several, alone), 1e-5);
  }
}

TEST(UserRun, SaysWhatItProtects) {
  const data::Folder folder;
  put_letters(folder);
  const io::Scratch run;
  auto words = on(folder);
  std::erase_if(words, [](const auto& word) { return word.first == "dp.noise_seed"; });
  const auto trained = train_in(run.path(), 1, words);
  ASSERT_TRUE(trained.result.spent);
  for (const auto& line : trained.metrics)
    if (line.contains("epsilon")) {
      EXPECT_EQ(line["privacy_unit"], "user");
    }
  EXPECT_EQ(privacy::adjacency(privacy::PrivacyUnit::user), "add or remove one user with all records");
  auto records = words;
  records.insert(records.end(),
                 {{"dp.privacy_unit", "record"}, {"dp.max_records_per_user", "0"}, {"train.steps", "5"}});
  const auto said = refused(run.path(), records);
  EXPECT_NE(said.find("they protect one record, those one user"), std::string::npos) << said;
  for (int i = 0; i < 40; ++i)
    folder.put(text("a", i, ".jsonl"), text("{\"text\": \"x\", \"from\": \"u", i, "\", \"to\": \"v", i, "\"}\n"));
  std::filesystem::remove(folder.path() / "a.jsonl");
  auto others = words;
  others.insert(others.end(), {{"data.user_field", "to"}, {"train.steps", "5"}});
  const auto renamed = refused(run.path(), others);
  EXPECT_NE(renamed.find("they protect one user by 'to', those one user by 'from'"), std::string::npos) << renamed;
}

TEST(UserRun, TrainsInBf16) {
  const data::Folder folder;
  put_letters(folder);
  const io::Scratch run;
  const auto fp32 = train_in(run.path() / "fp32", 1, on(folder));
  const auto bf16 = train_in(run.path() / "bf16", 1, on(folder, {{"model.dtype", "bf16"}}));
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(bf16.losses()[i], fp32.losses()[i], 0.05);
}

TEST(UserRun, RefusesWhatWouldProtectLess) {
  const data::Folder folder;
  put_letters(folder);
  const io::Scratch run;
  const auto said = [&](const Words& more) { return refused(run.path(), on(folder, more)); };
  const auto has = [](const std::string& words, const std::string& part) {
    return words.find(part) != std::string::npos ? testing::AssertionSuccess() : testing::AssertionFailure() << words;
  };
  EXPECT_TRUE(has(said({{"data.user_field", ""}}), "needs the field of a record that names its user"));
  EXPECT_TRUE(has(said({{"dp.max_records_per_user", "0"}}), "needs --max-records-per-user K"));
  EXPECT_TRUE(has(said({{"dp.privacy_unit", "record"}}), "--max-records-per-user 3 is for runs that protect users"));
  EXPECT_TRUE(has(said({{"data.packing", "packed"}}), "packed data in a private run"));
  EXPECT_TRUE(has(said({{"model.loss_mean", "token"}}), "--loss-mean token in a private run"));
  EXPECT_TRUE(has(said({{"train.batch_size", "39"}}), "users for training; choose a smaller one"));
  EXPECT_TRUE(has(said({{"train.eval_rate", "0"}, {"train.eval_records", "6"}}),
                  "would follow from the number of users, so one more could move others"));
  const Words plain{{"dp.dp", "none"}, {"dp.privacy_unit", "record"}, {"dp.max_records_per_user", "0"}};
  EXPECT_TRUE(has(said(with(plain, {{"train.eval_rate", "0"}, {"train.eval_records", "21"}})),
                  "eval_records is 21 of 40 users"));
  const auto unread = [&](const Words& more) { return refused<io::FormatError>(run.path(), on(folder, more)); };
  EXPECT_TRUE(has(unread({{"data.user_field", "to"}}), "a.jsonl:1: there is no field 'to'"));
  folder.put("b.jsonl", "{\"text\": \"whose?\"}\n");
  EXPECT_TRUE(has(unread({}), "b.jsonl:1: there is no field 'from'"));
}

// As another program builds it: its split must say whose records are whose.
TEST(UserJob, RefusesASplitThatDoesNotKnowItsUsers) {
  const data::Folder folder;
  put_letters(folder);
  const auto data = letters(folder);
  models::SizeOverrides sizes;
  sizes.vocab_size = 260;
  const auto model = models::make_model("llama-nano", sizes, {.task = models::Task::lm});
  const auto said = [&](const std::function<void(JobOptions&)>& change) {
    auto world = comm::World::simulated(0, 1);
    JobOptions options{
        .model = model.get(), .data = data.get(), .step = {.privacy = event(), .noise_seed = 7}, .batch_size = 8};
    options.split = HeldOut::by_user(*data, 0.15);
    options.max_records_per_user = kMost;
    change(options);
    return test::fault([&] { const Job job(world, options); });
  };
  EXPECT_EQ(said([](JobOptions&) {}), "no error");
  EXPECT_NE(said([&](JobOptions& o) { o.split = HeldOut::by_content(*data, 0.15); }).find("make it by user"),
            std::string::npos);
  EXPECT_NE(said([&](JobOptions& o) { o.split = HeldOut::about_users(*data, 6); }).find("by position or number"),
            std::string::npos);
  EXPECT_NE(said([&](JobOptions& o) { o.split.reset(); }).find("make it by user"), std::string::npos);
  EXPECT_NE(said([&](JobOptions& o) { o.max_records_per_user = 0; }).find("JobOptions::max_records_per_user"),
            std::string::npos);
}

}  // namespace
}  // namespace shade::train
