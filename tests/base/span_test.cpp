#include "shade/base/span.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace shade {
namespace {

class Collector : public SpanListener {
 public:
  void ended(const SpanRecord& record) noexcept override { records.push_back(record); }
  std::vector<SpanRecord> records;
};

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
