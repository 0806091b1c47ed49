// What is lost or damaged of a run, and what shade train makes of it: the newest whole checkpoint is found and named,
// nothing starts from the beginning in silence, and training that diverged leaves the last good checkpoint.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "shade/base/json.h"
#include "shade/checkpoint/chain.h"
#include "tests/io/scratch.h"
#include "tests/support/process.h"
#include "tests/train/remains.h"

namespace shade::cli {
namespace {

namespace fs = std::filesystem;
using io::content;
using Words = std::vector<std::string>;
using Files = std::map<std::string, std::string>;

const Words kPrivate{"--dp", "flash_bookkeeping", "--sigma", "1", "--delta", "1e-3", "--keep-key"};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class Lost : public testing::Test {
 protected:
  fs::path place(const std::string& name) const { return scratch_.path() / name; }
  fs::path checkpoint(const std::string& name, const std::string& run = "run") const {
    return place(run) / "checkpoints" / name;
  }

  Words command(const Words& more, const std::string& run = "run") const {
    const Words all{test::shade_binary(), "train",       "--model",       "linear-nano",
                    "--from-scratch",     "--synthetic", "--batch-size",  "8",
                    "--records",          "40",          "--micro-batch", "8",
                    "--threads",          "1",           "--peak-gflops", "100",
                    "--save-every",       "2",           "--keep",        "3",
                    "--optimizer",        "sgd",         "--output",      place(run).string()};
    return with(all, more);
  }
  test::Outcome train(const Words& more, const std::string& run = "run") const { return test::run(command(more, run)); }
  void trained(const Words& more, const std::string& run = "run") const {
    const auto seen = train(more, run);
    ASSERT_EQ(seen.status, 0) << seen.output;
  }

  static void expect_said(const test::Outcome& seen, const Words& all, int status = 0) {
    EXPECT_EQ(seen.status, status) << seen.output;
    for (const auto& words : all) EXPECT_NE(seen.output.find(words), std::string::npos) << words << "\n" << seen.output;
  }

  Files state(const std::string& run = "run") const { return train::remains(place(run)); }

  static void flip(const fs::path& file, size_t from_end) {
    auto bytes = content(file);
    bytes[bytes.size() - from_end] = static_cast<char>(bytes[bytes.size() - from_end] ^ 1);
    put(file, bytes);
  }
  static void put(const fs::path& file, const std::string& bytes) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  }

  io::Scratch scratch_;
};

TEST_F(Lost, WithoutLatestTheNewestWholeCheckpointIsFoundAndNamed) {
  trained({"--steps", "8"}, "whole");
  trained({"--steps", "6"});
  fs::remove(checkpoint("LATEST"));
  expect_said(train({"--steps", "8"}), {"LATEST is missing; continued from 00003_step_6, the newest whole checkpoint",
                                        "continued after step 6", "finished after step 8"});
  EXPECT_TRUE(state() == state("whole"));
  EXPECT_TRUE(fs::exists(checkpoint("00003_step_6")));
}

// Each damage to the newest of three checkpoints, on two ranks of which only one may see it.
TEST_F(Lost, ADamagedNewestCheckpointFallsBackToTheOneBefore) {
  const Words ranks{"--ranks", "2", "--shard", "zero3"};
  trained(with(ranks, {"--steps", "8"}), "whole");
  trained(with(ranks, {"--steps", "6"}), "kept");
  const auto newest = checkpoint("00003_step_6");
  const auto second = newest / "rank_00001.safetensors", manifest = newest / "manifest.json";
  struct Damage {
    std::string words;
    std::function<void()> make;
  };
  for (const auto& [words, make] : std::vector<Damage>{
           {"rank 1: ", [&] { flip(second, 1); }},
           {"rank_00001.safetensors\" is not a sound safetensors file",
            [&] { flip(second, fs::file_size(second) - 40); }},
           {" were saved; the checkpoint is damaged", [&] { fs::resize_file(second, fs::file_size(second) - 1); }},
           {"cannot open ", [&] { fs::remove(second); }},
           {"checksum is another one", [&] { flip(manifest, 200); }},
           {"doesn't end with a checksum", [&] { put(manifest, ""); }},
           {"cannot open ", [&] { fs::remove(manifest); }}}) {
    fs::remove_all(place("run"));
    fs::copy(place("kept"), place("run"), fs::copy_options::recursive);
    make();
    expect_said(train(with(ranks, {"--steps", "8"})),
                {"00003_step_6 is not whole: ", words, "continued from 00002_step_4, the newest whole checkpoint",
                 "continued after step 4"});
    EXPECT_TRUE(state() == state("whole")) << words;
    EXPECT_FALSE(fs::exists(newest)) << "when one had to go, it was the damaged one";
    EXPECT_TRUE(fs::exists(checkpoint("00002_step_4")));
  }
}

TEST_F(Lost, ADamagedLatestIsNoLoss) {
  trained({"--steps", "8"}, "whole");
  trained({"--steps", "6"}, "kept");
  const auto latest = content(checkpoint("LATEST", "kept"));
  auto flipped = latest;
  flipped[30] = flipped[30] == '0' ? '1' : '0';
  for (const auto& [bytes, words] : {std::pair(std::string("00003"), std::string("LATEST\" is damaged")),
                                     {std::string(), "LATEST\" is damaged"},
                                     {"00009_step_9" + latest.substr(12), "names 00009_step_9, which is not there"},
                                     {flipped, "LATEST has another digest than the manifest"},
                                     {"00001_step_2" + latest.substr(12), "another digest than the manifest of"}}) {
    fs::remove_all(place("run"));
    fs::copy(place("kept"), place("run"), fs::copy_options::recursive);
    put(checkpoint("LATEST"), bytes);
    expect_said(train({"--steps", "8"}), {words, "continued from 00003_step_6, the newest whole checkpoint"});
    EXPECT_TRUE(state() == state("whole")) << words;
  }
}

TEST_F(Lost, OddThingsAmongCheckpointsAreNoLoss) {
  trained({"--steps", "8"}, "whole");
  trained({"--steps", "6"});
  fs::create_directory(checkpoint("00009_step_90"));  // younger than all, and nothing in it
  fs::remove(checkpoint("LATEST"));
  fs::create_symlink("LATEST", checkpoint("LATEST"));
  expect_said(train({"--steps", "8", "--keep", "2"}), {"00009_step_90 is not whole", "continued from 00003_step_6"});
  EXPECT_TRUE(state() == state("whole"));
  EXPECT_TRUE(fs::exists(checkpoint("00003_step_6"))) << "it is whole, and the empty one should go first";
  EXPECT_FALSE(fs::exists(checkpoint("00009_step_90")));
}

TEST_F(Lost, WhereNoCheckpointIsWholeEachIsNamedAndNothingIsTrained) {
  trained({"--steps", "4"});
  flip(checkpoint("00001_step_2") / "rank_00000.safetensors", 1);
  fs::remove(checkpoint("00002_step_4") / "manifest.json");
  const auto seen = train({"--steps", "8"});
  expect_said(seen,
              {"no checkpoint in ", "00002_step_4 is not whole: cannot open",
               "00001_step_2 is not whole: ", "is not what was saved", "delete this folder to start again"},
              1);
  EXPECT_EQ(seen.output.find("from the beginning"), std::string::npos);
  EXPECT_TRUE(fs::exists(checkpoint("00001_step_2")));
  fs::remove_all(checkpoint("00001_step_2"));
  fs::remove_all(checkpoint("00002_step_4"));
  expect_said(train({"--steps", "8"}), {"names 00002_step_4, which is not there"}, 1);
  fs::remove_all(checkpoint(""));
  expect_said(train({"--steps", "8"}), {"from the beginning"});
}

// Checkpoints of one process share the file of frozen weights.
TEST_F(Lost, DamagedFrozenWeightsAreNamed) {
  const Words lora{"--model", "llama-nano", "--seq-length", "8", "--lora-rank", "2"};
  trained(with(lora, {"--steps", "4"}));
  flip(checkpoint("00002_step_4") / "frozen_00000.safetensors", 1);
  expect_said(train(with(lora, {"--steps", "6"})),
              {"00002_step_4 is not whole: ", "frozen_00000.safetensors\": ", "00001_step_2 is not whole: "}, 1);
}

// A private run that falls back makes the steps since then again: the same bits, counted once.
TEST_F(Lost, APrivateRunFallsBackWithoutSpendingMore) {
  trained(with(kPrivate, {"--steps", "6"}));
  const auto before = state();
  for (const bool latest : {true, false}) {
    if (latest) fs::remove(checkpoint("LATEST"));
    flip(checkpoint("00003_step_6") / "rank_00000.safetensors", 1);
    expect_said(train(with(kPrivate, {"--steps", "6"})), {"continued from 00002_step_4"});
    auto after = state();
    after["ledger"] = before.at("ledger");  // has a line more for each start
    EXPECT_TRUE(after == before);
    EXPECT_EQ(train::spent(place("run")), 6);
    fs::rename(checkpoint("00004_step_6"), checkpoint("00003_step_6.kept"));
    fs::remove_all(checkpoint("00003_step_6"));
    fs::rename(checkpoint("00003_step_6.kept"), checkpoint("00003_step_6"));
    fs::remove(checkpoint("LATEST"));
  }
}

TEST_F(Lost, ResumeFromGoesBackOnceAndTheSameCommandGoesOn) {
  trained({"--steps", "8"}, "whole");
  trained({"--steps", "6"});
  const auto back = with({"--steps", "8", "--keep", "9"}, {"--resume-from", "00002_step_4"});
  expect_said(train(back),
              {"continued after step 4", "began from 00002_step_4 (--resume-from)", "finished after step 8"});
  EXPECT_TRUE(state() == state("whole"));
  EXPECT_TRUE(fs::exists(checkpoint("00003_step_6"))) << "newer ones stay while there is room";
  expect_said(train(back), {"continued after step 8", "began from 00002_step_4 (--resume-from)"});
  for (const auto& named :
       {checkpoint("00003_step_6").string(), checkpoint("").string() + "/../checkpoints/00003_step_6"})
    expect_said(train({"--steps", "7", "--keep", "9", "--train.resume_from", named}), {"began from 00003_step_6"});
  expect_said(train({"--resume-from", place("nowhere").string()}), {"no checkpoint at ", "this run has 00001_step_2"},
              2);
  const auto metrics = content(place("run") / "metrics.jsonl");
  put(place("taken"), "");
  expect_said(train({"--resume-from", "00004_step_6", "--steps", "8", "--export", place("taken").string()}), {"taken"},
              1);
  EXPECT_EQ(content(place("run") / "metrics.jsonl"), metrics) << "what is refused changes nothing";
  flip(checkpoint("00004_step_6") / "rank_00000.safetensors", 1);
  trained({"--steps", "2"}, "other");
  expect_said(train({"--resume-from", checkpoint("00004_step_6").string()}, "other"), {"is not what was saved"}, 1);
}

TEST_F(Lost, WhatWasAbandonedGoesBeforeWhereTheBranchBegan) {
  trained({"--steps", "6", "--keep", "2"});
  trained({"--steps", "6", "--keep", "2", "--lr", "0.01", "--resume-from", "00002_step_4"});
  EXPECT_TRUE(fs::exists(checkpoint("00002_step_4")));
  EXPECT_FALSE(fs::exists(checkpoint("00003_step_6"))) << "of the branch that was left";
  flip(checkpoint("00004_step_6") / "rank_00000.safetensors", 1);
  expect_said(train({"--steps", "6", "--keep", "2"}), {"continued from 00002_step_4", "finished after step 6"});
}

TEST_F(Lost, ABareNameIsACheckpointOfThisRun) {
  trained({"--steps", "4"}, "other");
  trained({"--steps", "6", "--lr", "0.5"});
  const auto words = command({"--steps", "6", "--lr", "0.5", "--resume-from", "00001_step_2"});
  const auto from_there = with({"/bin/sh", "-c", text("cd ", checkpoint("", "other"), " && exec \"$@\""), "sh"}, words);
  expect_said(test::run(from_there), {"continued after step 2", "finished after step 6"});
  EXPECT_EQ(test::run(words).output.find("changed: "), std::string::npos);
  trained({"--steps", "6", "--lr", "0.5"}, "same");
  EXPECT_TRUE(state() == state("same")) << "the other run's weights were another rate's";
}

TEST_F(Lost, ABudgetThatIsSpentLeavesNeitherACheckpointNorAnExport) {
  trained(with(kPrivate, {"--steps", "4"}));
  fs::remove_all(checkpoint(""));
  const auto words = with(kPrivate, {"--steps", "4", "--lr", "0.5", "--export", place("exported").string()});
  expect_said(train(with(words, {"--restart", "--max-epsilon", "0.001"})), {"does not allow a step"}, 2);
  EXPECT_FALSE(fs::exists(place("exported") / "config.json")) << "untrained weights";
  expect_said(train(words), {"accept that with --restart"}, 2);
}

TEST_F(Lost, AnAbandonedBranchIsNotGoneBackTo) {
  const Words back{"--keep", "9", "--steps", "4", "--lr", "0.01", "--resume-from", "00001_step_2"};
  trained({"--keep", "9", "--steps", "6"}, "kept");
  const auto latest = content(checkpoint("LATEST", "kept"));
  for (const auto& words : {back, Words{"--keep", "9", "--steps", "4", "--lr", "0.01"}}) {
    fs::remove_all(place("run"));
    fs::copy(place("kept"), place("run"), fs::copy_options::recursive);
    trained(back);
    put(checkpoint("LATEST"), latest);  // killed between the rename and LATEST
    expect_said(train(words), {"of another branch; continued from 00004_step_4", "continued after step 4"});
    flip(checkpoint("00004_step_4") / "rank_00000.safetensors", 1);
    expect_said(train(words), {"00004_step_4 is not whole", "continued from 00001_step_2", "finished after step 4"});
  }
}

TEST_F(Lost, ResumeFromAnotherRunIsForRunsThatAreNotPrivate) {
  trained({"--steps", "8"}, "whole");
  trained({"--steps", "4"}, "first");
  const Words back{"--steps", "8", "--resume-from", checkpoint("00002_step_4", "first").string()};
  expect_said(train(back), {"continued after step 4", "began from "});
  EXPECT_TRUE(state() == state("whole"));
  EXPECT_EQ(state("first").at("step"), "4") << "the other run stays as it was";
  expect_said(train(with(kPrivate, back), "secret"), {"is another run's, and so is the ledger"}, 2);
  trained(with(kPrivate, {"--steps", "4"}), "secret");
  expect_said(train({"--resume-from", checkpoint("00002_step_4", "secret").string()}, "plain"),
              {"private; going on without noise would undo that"}, 2);
  expect_said(train(back, "secret"), {"has the ledger of a private run, and this one is not private"}, 2);
  expect_said(train(with(kPrivate, {"--steps", "6", "--resume-from", "00001_step_2"}), "secret"),
              {"continued after step 2"});
  EXPECT_EQ(train::spent(place("secret")), 6) << "steps 2 and 3 were made again";
}

TEST_F(Lost, ChangedSettingsAreNamedOneByOne) {
  trained({"--steps", "4"});
  const Words others{"--steps", "6", "--lr",    "0.5", "--batch-size", "6",
                     "--ranks", "2", "--shard", "ddp", "--records",    "41"};
  expect_said(train(others), {"changed: ", "optim.lr 0.0001 -> 0.5", "train.batch_size 8 -> 6", "train.steps 4 -> 6",
                              "shard.shard none -> ddp", "ranks 1 -> 2", "data: 1 record more"});
  const auto same = train(others);
  expect_said(same, {"continued after step 6"});
  EXPECT_EQ(same.output.find("changed"), std::string::npos) << same.output;

  trained(with(kPrivate, {"--steps", "4"}), "secret");
  const auto other = train(with(kPrivate, {"--steps", "6", "--records", "41"}), "secret");
  expect_said(other, {", data\n", "steps from here have new noise and are counted again"});
  EXPECT_EQ(other.output.find("record more"), std::string::npos) << other.output;
}

// The ledger has steps that are neither saved nor can be made again.
TEST_F(Lost, APrivateRunWithoutCheckpointsIsNotRestartedInSilence) {
  trained(with(kPrivate, {"--steps", "4"}));
  fs::remove_all(checkpoint(""));
  expect_said(train(with(kPrivate, {"--steps", "4"})),
              {"the ledger has 4 steps; they are repeated to the bit, and count once"});
  EXPECT_EQ(train::spent(place("run")), 4);
  const auto ledger = content(place("run") / "ledger");
  fs::remove_all(checkpoint(""));
  expect_said(train({"--steps", "4"}), {"has the ledger of a private run, and this one is not private"}, 2);
  for (const bool finished : {false, true}) {  // other settings; the same, and the key is gone
    const auto words = finished ? with(kPrivate, {"--steps", "4"}) : with(kPrivate, {"--steps", "4", "--lr", "0.5"});
    if (finished) fs::remove(place("run") / "key");
    fs::remove_all(checkpoint(""));
    expect_said(train(words), {" has 4 steps (epsilon ", "no checkpoint of them is left", "accept that with --restart"},
                2);
    EXPECT_EQ(content(place("run") / "ledger"), ledger);
  }
  expect_said(train(with(kPrivate, {"--steps", "4", "--restart"})),
              {"from the beginning", "the ledger has 4 more steps, which stay counted", "finished after step 4"});
  EXPECT_EQ(train::spent(place("run")), 8);
  EXPECT_EQ(content(place("run") / "recipe.toml").find("restart"), std::string::npos) << "it was meant once";
}

TEST_F(Lost, OneStepThatCanBeMadeAgainDoesNotPayForTheOthers) {
  const auto first = with(kPrivate, {"--steps", "2"});
  trained(first);
  trained(with(kPrivate, {"--steps", "6", "--lr", "0.5", "--keep-key"}));
  fs::remove_all(checkpoint(""));
  expect_said(train(first), {" has 6 steps (epsilon ", "accept that with --restart"}, 2);
  EXPECT_EQ(train::spent(place("run")), 6);
}

TEST_F(Lost, CheckpointsAreSavedByTime) {
  const Words words{"--save-every", "0", "--keep", "1000", "--steps", "300"};
  trained(with(words, {"--save-interval", "20ms", "--ranks", "2", "--shard", "ddp"}));
  const auto saves = [&](const std::string& run) {
    return checkpoint::Folder(place(run) / "checkpoints").list().size();
  };
  EXPECT_GE(saves("run"), 3u);
  EXPECT_EQ(state().at("step"), "300");
  trained(words, "rarely");
  EXPECT_EQ(saves("rarely"), 1u) << "ten minutes";
  const auto help = test::run({test::shade_binary(), "train", "--help-all"});
  EXPECT_NE(help.output.find("--save-interval"), std::string::npos);
}

// A disk of 120 KiB, mounted for this process alone.
TEST_F(Lost, SpaceIsCheckedBeforeTheFirstStep) {
  const auto disk = place("disk").string();
  fs::create_directories(disk);
  if (::geteuid() != 0 || test::run({"unshare", "-m", "mount", "-t", "tmpfs", "none", disk}).status != 0)
    GTEST_SKIP() << "mounting a file system needs root";
  const auto on_disk = [&](const Words& more) {
    std::string words;
    for (const auto& word : command(more, "disk/run")) words += text(word, " ");
    return test::run({"unshare", "-m", "sh", "-c", text("mount -t tmpfs -o size=120k none ", disk, " && ", words)});
  };
  const Words large{"--model", "llama-nano", "--seq-length", "8"};
  const auto seen = on_disk(with(large, {"--steps", "4"}));
  expect_said(seen,
              {"not enough space: 2 checkpoints of ", disk + "/run/checkpoints needs ", "KiB is free there",
               "choose another directory (--output), or keep fewer (--keep 1)"},
              2);
  EXPECT_EQ(seen.output.find("step 1/"), std::string::npos) << seen.output;
  const auto exported =
      on_disk(with(large, {"--steps", "4", "--output", place("elsewhere").string(), "--export", disk + "/model"}));
  expect_said(exported, {"not enough space: the model in " + disk + "/model needs "}, 2);
  expect_said(on_disk({"--steps", "4"}), {"finished after step 4"});
}

bool all_finite(const fs::path& safetensors) {
  const auto bytes = content(safetensors);
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  for (size_t at = sizeof header + header; at + sizeof(float) <= bytes.size(); at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    if (!std::isfinite(value)) return false;
  }
  return true;
}

TEST_F(Lost, TrainingThatDivergesStopsAndLeavesTheLastGoodCheckpoint) {
  for (const Words& ranks : {Words{"--ranks", "1"}, {"--ranks", "2", "--shard", "ddp"}}) {
    fs::remove_all(place("run"));
    trained(with(ranks, {"--steps", "2"}));
    expect_said(
        train(with(ranks, {"--steps", "40", "--lr", "1e6", "--save-every", "1", "--export", place("model").string()})),
        {"after step ",
         " (learning rate 1e+06): training has diverged, and nothing of it is saved or exported. The last checkpoint "
         "stays (step ",
         "smaller learning rate (--lr)"},
        1);
    EXPECT_FALSE(fs::exists(place("model") / "model.safetensors"));
    const checkpoint::Folder folder(place("run") / "checkpoints");
    EXPECT_GE(folder.latest().value().entry.step, 2);
    for (const auto& entry : folder.list())
      for (const auto& file : fs::directory_iterator(folder.place(entry)))
        EXPECT_TRUE(file.path().extension() == ".json" || all_finite(file.path())) << file.path();
  }
  // Not only where weights are looked at.
  expect_said(train({"--steps", "400", "--lr", "1e6", "--save-every", "400", "--log-every", "400"}, "rarely"),
              {" the loss is ", "There is no checkpoint yet: start again"}, 1);
  // No record is drawn: no loss, and no error.
  expect_said(train({"--steps", "4", "--sampler", "poisson", "--sample-rate", "1e-9"}, "empty"),
              {"finished after step 4"});
}

TEST_F(Lost, RunsOfOtherProgramsAreRefusedByName) {
  const auto change = [&](const std::string& run, const std::function<void(Json&)>& act) {
    const auto file = checkpoint("00002_step_4", run) / "manifest.json";
    auto manifest = checkpoint::parse_manifest(content(file));
    act(manifest.caller);
    put(file, checkpoint::print_manifest(manifest));
    fs::remove(checkpoint("LATEST", run));
  };
  trained({"--steps", "4"}, "plain");
  change("plain", [](Json& caller) { caller.erase("settings"); });
  expect_said(train({"--steps", "6"}, "plain"), {"the checkpoint has no valid 'settings', which shade train writes"},
              2);
  change("plain", [](Json& caller) { caller = Json{{"epoch", 3}}; });
  expect_said(train({"--steps", "6"}, "plain"), {"the checkpoint has no valid 'identity', which shade train writes"},
              2);

  trained(with(kPrivate, {"--steps", "4"}), "secret");
  const auto read = checkpoint::read_chain(content(place("secret") / "ledger"));
  hash::Digest head{};
  auto ledger = checkpoint::next_line(head, R"({"format":"shade ledger","version":1})");
  for (size_t i = 1; i < read.records.size(); ++i) ledger += checkpoint::next_line(head, read.records[i]);
  put(place("secret") / "ledger", ledger);
  expect_said(
      train(with(kPrivate, {"--steps", "6"}), "secret"),
      {"doesn't begin as one of version 2: another program or version wrote it", "start another run (--output)"}, 1);
}

}  // namespace
}  // namespace shade::cli
