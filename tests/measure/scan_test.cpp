// What scan says of results: phases, memory, the bottleneck of each method, remedies.
#include "shade/measure/scan.h"

#include <gtest/gtest.h>

#include <map>

namespace shade::measure {
namespace {

const Json kConfig{{"model", {{"attention", "flash"}, {"dtype", "fp32"}, {"checkpointing", "none"}}},
                   {"shard", {{"shard", "zero3"}, {"backward_prefetch", "pre"}, {"forward_prefetch", true}}},
                   {"dp", {{"dp", "ghost"}, {"norm_algorithm", "auto"}}}};

Json config_with(const char* section, const char* key, const Json& value) {
  auto out = kConfig;
  out[section][key] = value;
  return out;
}

// Phases as functions of T, in a sharded step whose waits are as long as its backward.
std::vector<Scanned> results_of(const std::string& method, const std::vector<double>& lengths, double norms) {
  std::vector<Scanned> out;
  for (const double t : lengths) {
    const Json own{{"forward", t / 100}, {"first_backward", t / 50}, {"norm", norms * t * t / 1e5},
                   {"gather_wait", 30},  {"coefficients", 0.05},     {"noise", 1}};
    double step = 0;
    for (const auto& [phase, ms] : own.items()) step += ms.get<double>();
    out.push_back({method,
                   {{"seq_length", t},
                    {"avg_time_ms", step},
                    {"own_ms", own},
                    {"peak_memory_mb", 40 + t / 10},
                    {"breakdown", {{"activations", t > 1000 ? t / 10 : 1}}},
                    {"breakdown_max", {{"parameters", 40}, {"activations", t / 10}, {"gradients", 0}}},
                    {"config", kConfig}}});
  }
  return out;
}

const std::vector<double> kLengths{512, 1024, 2048, 4096};

const FigureGrowth& find(const std::vector<FigureGrowth>& figures, const std::string& figure) {
  for (const auto& one : figures)
    if (one.figure == figure) return one;
  throw std::out_of_range(figure);
}

TEST(Scan, ListsEveryPhaseWithItsLaw) {
  const auto verdict = judge(results_of("ghost", kLengths, 1));
  const std::map<std::string, std::string> expected{{"forward", "O(T)"},          {"first_backward", "O(T)"},
                                                    {"norms", "O(T^2)"},          {"gather_wait", "constant"},
                                                    {"coefficients", "constant"}, {"noise", "constant"}};
  for (const auto& [phase, law] : expected) EXPECT_EQ(find(verdict.phases, phase).growth.verdict, law) << phase;
  EXPECT_EQ(verdict.phases.size(), expected.size() + 1) << "and the step";
  EXPECT_EQ(verdict.phases.back().figure, "step");
}

TEST(Scan, FitsMemoryByCategory) {
  const auto verdict = judge(results_of("ghost", kLengths, 1));
  EXPECT_EQ(find(verdict.memory, "activations").growth.verdict, "O(T)");
  EXPECT_EQ(find(verdict.memory, "parameters").growth.verdict, "constant");
  EXPECT_EQ(find(verdict.memory, "total").growth.verdict, "O(T)") << "91 % at the longest";
  EXPECT_EQ(verdict.memory.size(), 3u) << "what is never there has no law";
}

TEST(Scan, EveryMethodHasItsBottleneckAndTheWorstIsTheSlowest) {
  auto results = results_of("ghost", kLengths, 1);
  for (auto& one : results_of("flash", kLengths, 0.01)) results.push_back(one);
  const auto verdict = judge(results);
  ASSERT_EQ(verdict.methods.size(), 2u);
  EXPECT_EQ(verdict.methods[0].phase, "norms");
  EXPECT_EQ(verdict.methods[1].phase, "first_backward");
  EXPECT_EQ(verdict.worst().method, "ghost");
  EXPECT_TRUE(verdict.worst().describe().starts_with("norms of ghost: O(T^2), ")) << verdict.worst().describe();
  EXPECT_EQ(verdict.json().at("methods").size(), 2u);
}

TEST(Scan, TwoLengthsGiveNoLaw) {
  const auto verdict = judge(results_of("ghost", {512, 1024}, 1));
  for (const auto& phase : verdict.phases) {
    EXPECT_EQ(phase.growth.verdict, "undecided") << phase.figure;
    EXPECT_TRUE(phase.json("phase", "ms").at("interval").is_null());
  }
}

TEST(Scan, ARemedyIsNeverWhatIsOnAlready) {
  Growth square, line;
  square.shares = {0, 0, 1};
  line.shares = {0, 1, 0};
  const auto names = [](const std::string& words, const char* option) {
    return words.find(option) != std::string::npos;
  };
  EXPECT_FALSE(names(remedy_for("forward", square, kConfig), "--attention"));
  EXPECT_TRUE(names(remedy_for("forward", square, config_with("model", "attention", "standard")), "--attention flash"));
  EXPECT_TRUE(names(remedy_for("norms", square, kConfig), "--norm-algorithm input_length"));
  EXPECT_FALSE(names(remedy_for("norms", square, config_with("dp", "norm_algorithm", "input_length")), "--norm-algo"));
  EXPECT_FALSE(names(remedy_for("norms", line, config_with("dp", "dp", "auto")), "--dp auto"));
  EXPECT_TRUE(names(remedy_for("gather_wait", line, kConfig), "--shard zero2"));
  EXPECT_FALSE(names(remedy_for("gather_wait", line, config_with("shard", "shard", "zero2")), "--shard"));
  EXPECT_FALSE(names(remedy_for("forward", line, config_with("model", "dtype", "bf16")), "bf16"));
}

}  // namespace
}  // namespace shade::measure
