// SIGKILL at 24 points of step and save, then the same command again: weights, optimizer state and ledger are those of
// the run that nobody killed, byte by byte. Twelve cases here, all 72 (three strategies) with SHADE_FULL_MATRIX.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "shade/base/error.h"
#include "shade/comm/job/launch.h"
#include "shade/train/run/run_folder.h"
#include "tests/io/scratch.h"
#include "tests/train/remains.h"

namespace shade::train {
namespace {

using io::Scratch;

const bool full = std::getenv("SHADE_FULL_MATRIX") != nullptr;

struct Point {
  int rank;
  const char* span;
  int64_t count;  // which time it ends there
};

// Seven steps, saved after every second one and at the end, evaluated after every third. Two micro-steps a step.
const std::vector<Point> kPoints{
    {0, "ledger", 1},    {0, "ledger", 4},        {1, "ledger", 7},      {0, "forward", 1},     {1, "forward", 6},
    {1, "backward", 3},  {0, "backward", 9},      {0, "reduce", 2},      {1, "reduce", 5},      {0, "noise", 1},
    {1, "noise", 3},     {0, "noise", 7},         {1, "optimizer", 2},   {0, "optimizer", 3},   {0, "optimizer", 7},
    {0, "evaluate", 1},  {1, "evaluate", 2},      {0, "save_copy", 1},   {1, "save_copy", 3},   {0, "save_file", 2},
    {1, "save_file", 4}, {0, "save_manifest", 2}, {0, "save_rename", 3}, {0, "save_latest", 2},
};

int launch(const std::vector<std::string>& words) {
  auto command = words;
  command.insert(command.begin(),
                 (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "train_victim").string());
  return comm::launch({.ranks = 2, .command = command}).status;
}

const std::map<std::string, std::string>& uninterrupted(const std::string& strategy) {
  static std::map<std::string, std::map<std::string, std::string>> known;
  auto& entry = known[strategy];
  if (entry.empty()) {
    const Scratch scratch;
    const auto run = scratch.path() / "run";
    EXPECT_EQ(launch({run.string(), strategy}), 0);
    entry = remains(run);
    EXPECT_EQ(entry["step"], "7");
    EXPECT_EQ(spent(run), 7);
  }
  return entry;
}

class Kill : public testing::TestWithParam<std::string> {};

TEST_P(Kill, NothingIsLost) {
  const auto strategy = GetParam();
  const size_t offset = strategy == "ddp" ? 0 : strategy == "zero2" ? 1 : 2;
  int cases = 0;
  for (size_t i = 0; i < kPoints.size(); ++i) {
    if (!full && i % 6 != 2 * offset) continue;  // four of each strategy, none twice
    const auto& point = kPoints[i];
    const Scratch scratch;
    const auto run = scratch.path() / "run";
    const auto what = text(strategy, ", rank ", point.rank, " at ", point.span, " ", point.count);
    ++cases;
    EXPECT_EQ(launch({run.string(), strategy, std::to_string(point.rank), point.span, std::to_string(point.count)}),
              128 + 9)
        << what;
    const auto latest = checkpoint::Folder(run / "checkpoints").latest();
    EXPECT_GE(spent(run), latest ? latest->entry.step : 0) << what << ": the ledger is behind the weights";
    EXPECT_EQ(launch({run.string(), strategy}), 0) << what;
    EXPECT_EQ(remains(run) == uninterrupted(strategy), true) << what;
  }
  EXPECT_EQ(cases, full ? 24 : 4);
}

INSTANTIATE_TEST_SUITE_P(Strategies, Kill, testing::Values("ddp", "zero2", "zero3"),
                         [](const auto& of) { return of.param; });

}  // namespace
}  // namespace shade::train
