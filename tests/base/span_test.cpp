#include "shade/base/span.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace shade {
namespace {

class Collector : public SpanListener {
 public:
  void began(const SpanRecord& record) noexcept override { begun.push_back(record); }
  void ended(const SpanRecord& record) noexcept override { records.push_back(record); }
  std::vector<SpanRecord> begun, records;
};

// So that a listener can put what it noted at the beginning with the end.
TEST(Span, BeginsAndEndsUnderOneOwner) {
  Collector collector;
  Span::listen(&collector);
  UnitSpan unit;
  {
    const Span outer(SpanName::backward);
    unit.enter(SpanName::unit_backward, 4);
    const Span inner(SpanName::norm);
    unit.leave();
  }
  Span::listen(nullptr);
  ASSERT_EQ(collector.begun.size(), 3u);
  ASSERT_EQ(collector.records.size(), 3u);
  EXPECT_EQ(collector.begun[1].name, SpanName::unit_backward);
  for (const auto& end : collector.records)
    for (const auto& begin : collector.begun)
      EXPECT_EQ(begin.owner == end.owner, begin.name == end.name)
          << to_string(begin.name) << " " << to_string(end.name);
}

TEST(Span, ToldToTheListenerWhenItEnds) {
  Collector collector;
  Span::listen(&collector);
  {
    const Span outer(SpanName::backward, 3);
    const Span inner(SpanName::norm);
  }
  Span::listen(nullptr);
  {
    const Span unheard(SpanName::noise);
  }
  ASSERT_EQ(collector.records.size(), 2u);
  EXPECT_EQ(collector.records[0].name, SpanName::norm);
  EXPECT_EQ(collector.records[0].index, -1);
  EXPECT_EQ(collector.records[1].name, SpanName::backward);
  EXPECT_EQ(collector.records[1].index, 3);
  EXPECT_LE(collector.records[1].begin, collector.records[0].begin);
  EXPECT_GE(collector.records[1].end, collector.records[0].end);
}

}  // namespace
}  // namespace shade
