// A program's own model and records in a run that continues itself.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "shade/base/temporary_folder.h"
#include "shade/io/weight_folder.h"
#include "shade/shade.h"
#include "shade/train/release/release.h"
#include "tests/support/fault.h"
#include "tests/support/ranks.h"

namespace shade {
namespace {

using test::fault;
namespace fs = std::filesystem;

struct Net : Module {
  nn::Embedding embed = add<nn::Embedding>("embed", {.rows = 12, .width = 8});
  nn::Linear head = add<nn::Linear>("head", {.in = 8, .out = 3, .bias = true});

  at::Tensor loss(const Batch& batch) override {
    return nn::class_losses(head(embed(batch.field("ids")).mean(1)), batch.field("label"));
  }
  std::string config_json() const override { return R"({"model_type":"net"})"; }
};

InMemory some_records(bool users = false) {
  const auto ids = at::arange(400 * 4, at::kLong).mul(7).remainder(12).view({400, 4});
  std::vector<std::string> names;
  for (int i = 0; users && i < 400; ++i) names.push_back("user " + std::to_string(i % 57));
  return InMemory({{"ids", ids}, {"label", ids.select(1, 0).remainder(3)}}, {.users = names});
}

RunOptions options(const std::string& folder = "") {
  RunOptions out{.budget = {{.epsilon = 4, .delta = 1e-4}}, .batch_size = 40, .steps = 12, .seed = 3, .folder = folder};
  out.optimizer.lr = 0.05;
  return out;
}

// Trains in `folder`, at most so many steps here; -> the whole weights of rank 0.
std::vector<at::Tensor> trained(int ranks, const RunOptions& options, int64_t most = 1000, bool users = false) {
  std::vector<at::Tensor> out;
  test::run_ranks(ranks, test::As::threads, [&](World& world) {
    Net net;
    const auto records = some_records(users);
    train::Run run(world, net, records, options);
    for (int64_t made = 0; made < most && run.step(); ++made) continue;
    std::vector<at::Tensor> whole;
    for (const auto& weight : net.parameters().weights()) whole.push_back(run.runtime().whole(weight).clone());
    if (world.rank() == 0) out = whole;
  });
  return out;
}

bool equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size() || a.empty()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!at::equal(a[i], b[i])) return false;
  return true;
}

TEST(Run, SpendsItsBudgetAndLearns) {
  for (const int ranks : {1, 2}) {
    const TemporaryFolder scratch("shade_run_test");
    test::run_ranks(ranks, test::As::threads, [&](World& world) {
      Net net;
      const auto records = some_records();
      auto wanted = options();
      wanted.budget->epsilon = 60;
      wanted.steps = 60;
      wanted.export_folder = (scratch / "out").string();
      train::Run run(world, net, records, wanted);
      std::vector<double> losses;
      for (const auto& step : run) losses.push_back(step.loss);
      ASSERT_EQ(losses.size(), 60u);
      EXPECT_LT(losses.back(), 0.7 * losses.front());
      EXPECT_EQ(run.steps(), 60);
      EXPECT_FALSE(run.step()) << "it has ended";
      if (world.rank() == 0) {
        EXPECT_LE(run.spent()->epsilon, 60);
        EXPECT_GT(run.spent()->epsilon, 55);
        EXPECT_NE(run.privacy().find("at delta 0.0001 for each record"), std::string::npos) << run.privacy();
      }
    });
    const io::WeightFolder exported(scratch / "out");
    EXPECT_TRUE(exported.contains("embed.weight") && exported.contains("head.bias"));
  }
}

// What the trainer says of the options of shade train.
TEST(Run, SpeaksOfItsOwnOptions) {
  const TemporaryFolder scratch("shade_run_test");
  const auto said = [&](const std::function<void(RunOptions&)>& change) {
    return fault([&] {
      auto wanted = options((scratch / "run").string());
      change(wanted);
      auto world = comm::World::simulated(0, 1);
      Net net;
      const auto records = some_records();
      train::Run(world, net, records, wanted).finish();
    });
  };
  EXPECT_NE(said([](auto& o) { o.batch_size = 1000; }).find("RunOptions::batch_size 1000"), std::string::npos);
  const auto users = said([](auto& o) { o.unit = PrivacyUnit::user; });
  EXPECT_NE(users.find("RunOptions::max_records_per_user"), std::string::npos) << users;
  for (const double sigma : {-1.0, std::nan("")})  // it would be a run without protection
    EXPECT_NE(said([&](auto& o) { o.budget.reset(), o.sigma = sigma; }).find("RunOptions::sigma is"),
              std::string::npos);
  for (const auto& words :
       {users, said([](auto& o) { o.budget->delta = 2; }), said([](auto& o) { o.eval_rate = 2; }),
        said([](auto& o) { o.clip_norm = 0; }), said([](auto& o) { o.weights = "/nowhere"; }),
        said([](auto& o) { o.optimizer.ema = 2; }), said([](auto& o) { o.budget->epsilon = -1; })}) {
    EXPECT_NE(words, "no error");
    EXPECT_EQ(words.find("--"), std::string::npos) << words;
  }
  std::filesystem::create_directories(scratch / "taken");
  std::ofstream(scratch / "taken/model.safetensors") << "x";
  const auto taken = said([&](auto& o) { o.export_folder = (scratch / "taken").string(); });
  EXPECT_NE(taken.find("already has weights"), std::string::npos) << taken;
  EXPECT_FALSE(fs::exists(scratch / "run" / "metrics.jsonl")) << "it is known before the first step";
}

// In pieces of some steps, as a machine that is often taken away makes them.
TEST(Run, ContinuesToTheBit) {
  for (const int ranks : {1, 2}) {
    const TemporaryFolder scratch("shade_run_test");
    auto whole = options((scratch / "whole").string());
    whole.noise_seed = 5;  // else each run has noise of its own
    whole.micro_batch = 5;
    auto parts = whole;
    parts.folder = (scratch / "parts").string();
    parts.save_every = 2;
    const auto expected = trained(ranks, whole);
    trained(ranks, parts, 3);
    trained(ranks, parts, 4);
    EXPECT_TRUE(equal(trained(ranks, parts), expected)) << ranks;
  }
}

TEST(Run, ContinuesOnMoreRanksAndCountsWhatItSpent) {
  const TemporaryFolder scratch("shade_run_test");
  auto wanted = options((scratch / "run").string());
  wanted.save_every = 3;
  wanted.micro_batch = 5;
  trained(1, wanted, 5);
  test::run_ranks(2, test::As::threads, [&](World& world) {
    Net net;
    const auto records = some_records();
    train::Run run(world, net, records, wanted);
    EXPECT_EQ(run.steps(), 3) << "the last that was saved";
    run.finish();
    EXPECT_EQ(run.steps() <= 12, true);
    if (world.rank() == 0) EXPECT_LE(run.spent()->epsilon, 4) << "two steps were spent twice, and fewer are left";
  });
}

TEST(Run, ProtectsUsers) {
  const TemporaryFolder scratch("shade_run_test");
  auto wanted = options((scratch / "run").string());
  wanted.unit = PrivacyUnit::user;
  wanted.batch_size = 10;
  wanted.max_records_per_user = 3;
  EXPECT_FALSE(trained(1, wanted, 1000, /*users=*/true).empty());
  wanted.folder = (scratch / "other").string();
  const auto said = fault([&] {
    auto world = comm::World::simulated(0, 1);
    Net net;
    const auto records = some_records();
    train::Run(world, net, records, wanted).finish();
  });
  EXPECT_NE(said.find("has no user"), said.npos) << said;
}

TEST(Run, IsReleasedWithItsStatement) {
  const TemporaryFolder scratch("shade_run_test");
  auto wanted = options((scratch / "run").string());
  wanted.records_name = "answers of 2026";
  trained(1, wanted);
  const auto place = train::find_run(scratch / "run");
  ASSERT_TRUE(place);
  const auto released = train::release(*place, scratch / "released", {});
  ASSERT_TRUE(released.statement.spent);
  EXPECT_LE(released.statement.spent->epsilon, 4);
  const io::WeightFolder weights(scratch / "released");
  EXPECT_TRUE(weights.contains("head.weight"));
  const auto words = read_json(scratch / "released/config.json");
  EXPECT_EQ(words.at("model_type"), "net");
}

TEST(Run, KeepsNothingWithoutAFolder) {
  const TemporaryFolder scratch("shade_run_test");
  ::setenv("TMPDIR", scratch.path().c_str(), 1);
  trained(2, options());
  ::unsetenv("TMPDIR");
  for (const auto& left : fs::directory_iterator(scratch.path()))
    EXPECT_FALSE(left.path().filename().string().starts_with("shade_run")) << left.path();
}

TEST(Run, SaysWhatIsMissing) {
  auto world = comm::World::simulated(0, 1);
  const auto said = [&](const std::function<void(RunOptions&)>& change) {
    auto wanted = options();
    change(wanted);
    Net net;
    const auto records = some_records();
    return fault([&] { train::Run(world, net, records, wanted); });
  };
  const auto holds = [&](const std::string& words, const std::string& what) {
    EXPECT_NE(words.find(what), words.npos) << words;
  };
  holds(said([](auto& o) { o.steps = 0; }), "RunOptions::steps is 0");
  holds(said([](auto& o) { o.batch_size = 0; }), "RunOptions::batch_size is 0");
  holds(said([](auto& o) { o.sigma = 1; }), "both say how much noise");
  holds(said([](auto& o) { o.save_every = 5; }), "set RunOptions::folder");
  holds(said([](auto& o) { o.population = 5; }), "less than a batch");
  holds(said([](auto& o) {
          o.budget.reset();
          o.unit = PrivacyUnit::user;
        }),
        "the run is not private");
}

}  // namespace
}  // namespace shade
