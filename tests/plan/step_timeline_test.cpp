#include "shade/plan/step_timeline.h"

#include <gtest/gtest.h>

#include <set>

#include "shade/base/units.h"

namespace shade::plan {
namespace {

DeviceProfile plain_device() {
  auto out = device_profile("h100-80g");
  out.ranks_per_node = 8;
  return out;
}

StepEvent product(SpanName phase, const std::string& owner) {
  return {.kind = EventKind::compute,
          .phase = phase,
          .owner = owner,
          .name = "mm",
          .dtype = c10::ScalarType::BFloat16,
          .flops = 1e12,
          .bytes_read = 1e6,
          .bytes_written = 1e6,
          .batch = 1,
          .rows = 4096,
          .inner = 4096,
          .columns = 4096};
}

StepEvent gather(const std::string& owner, int ranks) {
  StepEvent out{.kind = EventKind::collective, .phase = SpanName::forward, .name = "gather " + owner};
  out.collective = {.kind = comm::Collective::all_gather,
                    .group = text("g", ranks),
                    .axis = "shard",
                    .ranks = ranks,
                    .payload = Bytes{int64_t{1} << 30},
                    .wire = Bytes{int64_t{1} << 29}};
  return out;
}

// A gather over the network that is waited for, one inside the node that is hidden, two units, a backward.
StepRecord small_step() {
  StepRecord out{.ranks = 64};
  out.events = {gather("layers.0", 64)};
  out.events.push_back(
      {.kind = EventKind::wait, .phase = SpanName::forward, .name = "gather layers.0", .waits_for = 0});
  out.events.push_back(gather("layers.1", 8));
  out.events.push_back(product(SpanName::forward, "layers.0"));
  out.events.push_back(product(SpanName::forward, "layers.1"));
  out.events.push_back(product(SpanName::backward, "layers.1"));
  out.events.push_back(product(SpanName::backward, "layers.0"));
  for (size_t i = 0; i <= out.events.size(); ++i) {
    profile::MemoryBreakdown memory;
    memory.of(MemoryKind::activations) = memory.total = Bytes{static_cast<int64_t>((i == 5 ? 9 : i) << 20)};
    out.course.push_back({i, memory});
  }
  return out;
}

TEST(StepTimeline, HasPhasesUnitsWaitsStreamsAndMemory) {
  const auto record = small_step();
  const auto device = plain_device();
  const auto time = predict_time(record, device);
  const auto json = timeline_of(record, time, device).json();
  EXPECT_NEAR(json["step_ms"].get<double>(), Millis(time.step).count(), 1e-3);
  std::vector<std::string> names;
  double waits = 0;
  for (const auto& span : json["spans"]) {
    const auto name = span["name"].get<std::string>();
    if (name.ends_with("_wait"))
      waits += span["to_ms"].get<double>() - span["from_ms"].get<double>();
    else
      names.push_back(name + (span.contains("of") ? " " + span["of"].get<std::string>() : ""));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"forward", "backward", "unit_forward layers.0", "unit_forward layers.1",
                                             "unit_backward layers.1", "unit_backward layers.0"}));
  EXPECT_NEAR(waits, Millis(time.exposed).count(), 1e-2);
  EXPECT_GT(waits, 0);
  ASSERT_EQ(json["collectives"].size(), 2u);
  EXPECT_EQ(json["collectives"][0]["stream"], "network");
  EXPECT_EQ(json["collectives"][1]["stream"], "node");
  EXPECT_EQ(json["collectives"][1]["waited_ms"], 0);
  const auto highest = json["memory"]["activations"].get<std::vector<double>>();
  EXPECT_EQ(*std::max_element(highest.begin(), highest.end()), 9);
  const auto ms = json["memory"]["ms"].get<std::vector<double>>();
  EXPECT_TRUE(std::is_sorted(ms.begin(), ms.end()));
  const auto peak = static_cast<size_t>(std::max_element(highest.begin(), highest.end()) - highest.begin());
  EXPECT_NEAR(ms[peak], Millis(time.events[5].begin).count(), 1e-3) << "while the first backward of a unit runs";
}

TEST(StepTimeline, IsBounded) {
  StepRecord record{.ranks = 64};
  for (int i = 0; i < 20'000; ++i) {
    auto one = gather(text("layers.", i), 64);
    one.collective.payload = one.collective.wire = Bytes{1024};
    record.events.push_back(one);
    record.events.push_back(
        {.kind = EventKind::wait, .phase = SpanName::forward, .name = one.name, .waits_for = record.events.size() - 1});
    record.events.push_back(product(SpanName::forward, text("layers.", i)));
  }
  const auto device = plain_device();
  const auto json = timeline_of(record, predict_time(record, device), device).json();
  EXPECT_LE(json["collectives"].size(), 2000u);
  EXPECT_LE(json["spans"].size(), 2000u);
  double sent = 0;
  for (const auto& one : json["collectives"]) sent += one["mb"].get<double>();
  EXPECT_NEAR(sent, 20'000 * 1024.0 / (1 << 20), 1.0) << "nothing is lost where neighbours are one";
}

}  // namespace
}  // namespace shade::plan
