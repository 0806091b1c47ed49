#include "shade/profile/phases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "shade/base/sanitizer.h"

namespace shade::profile {
namespace {

TEST(Phases, AddUpByNameAndByIndex) {
  Phases phases;
  for (int i = 0; i < 4; ++i) {
    const Span outer(SpanName::backward);
    const Span inner(SpanName::norm, i % 2);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const auto names = phases.by_name();
  EXPECT_GE(names.at("backward").count(), 20);
  EXPECT_GE(names.at("backward"), names.at("norm")) << "phases nest";
  const auto indices = phases.by_index(SpanName::norm);
  ASSERT_EQ(indices.size(), 2u);
  EXPECT_NEAR((indices.at(0) + indices.at(1)).count(), names.at("norm").count(), 1e-9);
  phases.restart();
  EXPECT_TRUE(phases.by_name().empty());
}

TEST(Phases, HearNothingOnceGone) {
  {
    Phases phases;
  }
  const Span span(SpanName::noise);
  Phases later;
  EXPECT_TRUE(later.by_name().empty());
}

TEST(Phases, RememberEveryUnitFromEnterToLeave) {
  Phases phases;
  UnitSpan unit;
  unit.enter(SpanName::unit_forward, 2);
  unit.enter(SpanName::unit_forward, 5);  // nested
  unit.leave();
  EXPECT_TRUE(phases.records().empty()) << "still in the outer one";
  unit.leave();
  unit.leave();  // once too often is nothing
  unit.enter(SpanName::unit_forward, 7);
  unit.reset();  // given up
  const auto records = phases.records();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].name, SpanName::unit_forward);
  EXPECT_EQ(records[0].index, 2);
  EXPECT_LE(records[0].begin, records[0].end);
}

// A step of a real model has hundreds of spans and lasts hundreds of milliseconds.
TEST(Phases, SpansCostNanosecondsUnheardAndLittleHeard) {
  if (SHADE_SANITIZED) GTEST_SKIP() << "a sanitizer's time is not ours";
  constexpr int kSpans = 200'000;
  const auto each = [&] {
    double best = 1e9;
    for (int round = 0; round < 5; ++round) {
      const auto begin = Clock::now();
      for (int i = 0; i < kSpans / 5; ++i) const Span span(SpanName::norm, i);
      best = std::min(best, Seconds(Clock::now() - begin).count() * 5 / kSpans);
    }
    return best * 1e9;
  };
  EXPECT_LT(each(), 100) << "ns, nobody listens";
  const Phases phases;
  EXPECT_LT(each(), 5000) << "ns, somebody listens";
}

}  // namespace
}  // namespace shade::profile
