// Jobs of `shade train` whose ranks are lost and started again by torchrun: the same world goes on to the bit, another
// one as another incarnation. A worker of the first start kills itself as soon as there is a checkpoint.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "shade/base/json.h"
#include "shade/base/strings.h"
#include "tests/support/process.h"
#include "tests/train/remains.h"

namespace shade::train {
namespace {

using io::Scratch;
using test::run;
using test::shade_binary;

constexpr int64_t kSteps = 100;
constexpr const char* kRecipe = R"(
[model]
model = "llama-nano"
from_scratch = true
task = "lm"
[shard]
shard = "zero3"
[dp]
dp = "flash_bookkeeping"
noise_seed = 3
[optim]
lr = 1e-2
[train]
steps = 100
batch_size = 8
seq_length = 16
synthetic = true
records = 200
micro_batch = "4"
save_every = 10
log_every = 1
threads = 1
peak_gflops = 100
)";

const test::RunOptions kPatient{.limit = Seconds(280)};

std::string torchrun() { return test::source_root() + "/.deps/peers/bin/torchrun"; }

struct Job {
  Scratch scratch;
  std::filesystem::path run = scratch.path() / "run";
  // torchrun sets this variable for several workers of a host, and it is part of what must be equal.
  std::string train = text("env OMP_NUM_THREADS=1 ", shade_binary(), " train ",
                           scratch.write("recipe.toml", kRecipe).string(), " --output ", run.string());

  // A script for a worker (torchrun would replace $$ in an argument). The first that meets `condition` ends itself
  // (SIGKILL) when a checkpoint is there.
  std::string worker(const std::string& condition) const {
    const auto script = text("if ", condition, " && mkdir ", (scratch.path() / "once").string(), " 2>/dev/null; then ",
                             when_saved(run, "KILL"), "fi; exec ", train);
    return scratch.write("worker.sh", script).string();
  }
};

const std::map<std::string, std::string>& uninterrupted() {
  static const auto known = [] {
    const Job job;
    const auto seen = run({"sh", "-c", text(job.train, " --ranks 2")}, kPatient);
    EXPECT_EQ(seen.status, 0) << seen.output;
    EXPECT_EQ(spent(job.run), kSteps);
    return remains(job.run);
  }();
  return known;
}

// "continued after step 30" -> 30; all that are in the output.
std::vector<int64_t> continued(const test::Outcome& seen) {
  std::vector<int64_t> out;
  const std::string mark = "continued after step ";
  for (auto at = seen.output.find(mark); at != std::string::npos; at = seen.output.find(mark, at + 1))
    out.push_back(std::stoll(seen.output.substr(at + mark.size())));
  return out;
}

void expect_the_uninterrupted_run(const Job& job, const test::Outcome& seen) {
  const auto from = continued(seen);
  ASSERT_EQ(from.size(), 1u) << seen.output;
  EXPECT_GE(from[0], 10);
  EXPECT_LT(from[0], kSteps);
  EXPECT_TRUE(remains(job.run) == uninterrupted()) << seen.output;
}

class Restart : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(torchrun())) GTEST_SKIP() << "no torchrun: run tools/bootstrap peers";
  }
  Job job_;
};

TEST_F(Restart, TorchrunStartsTheSameWorldAgain) {
  const auto seen = run(
      {torchrun(), "--nproc-per-node", "2", "--max-restarts", "3", "--no-python", "sh", job_.worker("[ $RANK = 1 ]")},
      kPatient);
  ASSERT_EQ(seen.status, 0) << seen.output;
  expect_the_uninterrupted_run(job_, seen);
}

TEST_F(Restart, ASecondTorchrunWithFewerRanksIsAnotherIncarnation) {
  const auto first = run(
      {torchrun(), "--nproc-per-node", "2", "--max-restarts", "0", "--no-python", "sh", job_.worker("[ $RANK = 0 ]")},
      kPatient);
  EXPECT_NE(first.status, 0) << first.output;
  const auto before = spent(job_.run);
  EXPECT_LT(before, kSteps) << first.output;
  const auto second =
      run({torchrun(), "--nproc-per-node", "1", "--no-python", "sh", "-c", text("exec ", job_.train)}, kPatient);
  ASSERT_EQ(second.status, 0) << second.output;
  const auto from = continued(second);
  ASSERT_EQ(from.size(), 1u) << second.output;
  EXPECT_GE(before, from[0]);
  EXPECT_EQ(spent(job_.run), before + kSteps - from[0]) << "what was made again counts again";
  EXPECT_EQ(incarnation(job_.run), 1);
}

// Two agents that stand for two hosts. Each counts restarts for itself, and their store outlives them.
std::string agent(const std::string& name, const std::string& hosts, int port, const std::string& worker) {
  return text("SHADE_SECRET=", std::string(64, '5'), " AGENT=", name, " ", torchrun(), " --nnodes ", hosts,
              " --nproc-per-node 1 --max-restarts 3 --rdzv-id ", port,
              " --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:", port, " --local-addr 127.0.0.1 --rdzv-conf ",
              "last_call_timeout=20,keep_alive_interval=1,keep_alive_max_attempt=3 --no-python sh ", worker);
}

TEST_F(Restart, AgentsOfSeveralHostsMeetAgain) {
  const int port = test::new_port();
  const auto worker = job_.worker("[ $RANK = 1 ]");
  const auto seen = run(
      {"sh", "-c",
       text(agent("a", "2", port, worker), " & a=$!; ", agent("b", "2", port, worker), " & b=$!; wait $a && wait $b")},
      kPatient);
  ASSERT_EQ(seen.status, 0) << seen.output;
  expect_the_uninterrupted_run(job_, seen);
}

}  // namespace
}  // namespace shade::train
