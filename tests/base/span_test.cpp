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
    const Span outer("outer");
    unit.enter("unit", 4);
    const Span inner("inner");
    unit.leave();
  }
  Span::listen(nullptr);
  ASSERT_EQ(collector.begun.size(), 3u);
  ASSERT_EQ(collector.records.size(), 3u);
  EXPECT_STREQ(collector.begun[1].name, "unit");
  for (const auto& end : collector.records)
    for (const auto& begin : collector.begun)
      EXPECT_EQ(begin.owner == end.owner, begin.name == end.name) << begin.name << " " << end.name;
}

TEST(Span, ToldToTheListenerWhenItEnds) {
  Collector collector;
  Span::listen(&collector);
  {
    const Span outer("outer", 3);
    const Span inner("inner");
  }
  Span::listen(nullptr);
  {
    const Span unheard("unheard");
  }
  ASSERT_EQ(collector.records.size(), 2u);
  EXPECT_STREQ(collector.records[0].name, "inner");
  EXPECT_EQ(collector.records[0].index, -1);
  EXPECT_STREQ(collector.records[1].name, "outer");
  EXPECT_EQ(collector.records[1].index, 3);
  EXPECT_LE(collector.records[1].begin, collector.records[0].begin);
  EXPECT_GE(collector.records[1].end, collector.records[0].end);
}

}  // namespace
}  // namespace shade
