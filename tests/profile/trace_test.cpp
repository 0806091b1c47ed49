// A trace is written by the real profiler and read back as JSON.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "shade/base/json.h"
#include "shade/profile/phases.h"
#include "shade/profile/trace.h"
#include "tests/support/process.h"

namespace shade::profile {
namespace {

TEST(Trace, HoldsTheOperatorsBetweenBeginAndSave) {
  const auto path = (std::filesystem::temp_directory_path() / "shade_trace_test.pt.trace.json").string();
  at::erfinv(at::rand({4}));
  Trace trace;
  at::mm(at::rand({8, 8}), at::rand({8, 8}));
  trace.save(path);
  at::rand({4}).lgamma();
  std::set<std::string> names;
  const auto written = read_json(path);
  for (const auto& event : written.at("traceEvents"))
    if (event.value("cat", "") == "cpu_op") names.insert(event.at("name").get<std::string>());
  EXPECT_TRUE(names.contains("aten::mm"));
  EXPECT_FALSE(names.contains("aten::erfinv")) << "before the trace";
  EXPECT_FALSE(names.contains("aten::lgamma")) << "after the trace";
  EXPECT_ANY_THROW(trace.save(path)) << "a trace is saved once";
  std::filesystem::remove(path);
}

// Listeners are chained: whichever came first, both hear.
TEST(Trace, AndPhasesHearTheSameSpans) {
  const auto path = (std::filesystem::temp_directory_path() / "shade_trace_chain.pt.trace.json").string();
  Phases before;
  Trace trace({.rank = 3, .ranks = 4});
  Phases after;
  {
    const Span outer(SpanName::backward);
    const Span inner(SpanName::norm, 7);
    at::mm(at::rand({8, 8}), at::rand({8, 8}));
  }
  const auto now = Clock::now();
  trace.step(5, now - std::chrono::milliseconds(20), now);
  trace.save(path);
  {
    const Span unheard(SpanName::noise);
  }
  EXPECT_TRUE(before.by_name().contains("norm"));
  EXPECT_EQ(before.by_index(SpanName::norm), after.by_index(SpanName::norm));
  std::map<std::string, Json> written;
  const auto file = read_json(path);
  for (const auto& event : file.at("traceEvents")) written[event.at("name").get<std::string>()] = event;
  EXPECT_EQ(written.at("norm").at("args").at("index"), 7);
  EXPECT_NEAR(written.at("norm").at("dur").get<double>(), before.by_name().at("norm").count() * 1e3, 1e-3);
  EXPECT_NEAR(written.at("ProfilerStep#5").at("dur").get<double>(), 20e3, 1e-3);
  EXPECT_FALSE(written.contains("noise"));
  EXPECT_EQ(file.at("distributedInfo").at("rank"), 3);
  // The clocks of Kineto and of spans agree: the operator lies in the span that it was called in.
  const auto begin = [&](const std::string& name) { return written.at(name).at("ts").get<double>(); };
  const auto end = [&](const std::string& name) { return begin(name) + written.at(name).at("dur").get<double>(); };
  EXPECT_GT(begin("aten::mm"), begin("norm") - 100);
  EXPECT_LT(end("aten::mm"), end("norm") + 100);
  std::filesystem::remove(path);
}

TEST(Trace, KeepsCollectivesThatOverlapOnTracksOfTheirOwn) {
  const auto path = (std::filesystem::temp_directory_path() / "shade_trace_lanes.pt.trace.json").string();
  const auto early = Clock::now() - std::chrono::seconds(1);
  Trace trace;
  const auto begin = Clock::now();
  const auto at = [&](int ms) { return begin + std::chrono::milliseconds(ms); };
  const auto record = [&](const char* label, Clock::time_point from, Clock::time_point to) {
    return comm::TrafficRecord{.kind = comm::Collective::all_gather,
                               .label = label,
                               .group = "gather",
                               .payload = Bytes{64},
                               .enqueued = from,
                               .started = from,
                               .ended = to};
  };
  trace.collectives(std::vector{record("before", early, early), record("a", at(0), at(4)), record("b", at(2), at(6)),
                                record("c", at(5), at(7))});
  trace.save(path);
  std::map<std::string, Json> written;
  const auto file = read_json(path);
  for (const auto& event : file.at("traceEvents"))
    if (event.at("name") == "gloo:all_gather") written[event.at("args").at("label").get<std::string>()] = event;
  ASSERT_EQ(written.size(), 3u) << "what was before the trace is not in it";
  EXPECT_NE(written.at("a").at("tid"), written.at("b").at("tid"));
  EXPECT_EQ(written.at("a").at("tid"), written.at("c").at("tid"));
  EXPECT_NEAR(written.at("b").at("ts").get<double>() - written.at("a").at("ts").get<double>(), 2e3, 1e-2);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace shade::profile
