#include "shade/profile/phases.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace shade::profile {
namespace {

SpanRecord span(SpanName name, int from_ms, int to_ms) {
  const auto at = [](int ms) { return Clock::time_point(std::chrono::milliseconds(1000 + ms)); };
  return {name, -1, at(from_ms), at(to_ms)};
}

// A sharded step of two passes, in the order in which spans end.
const std::vector<SpanRecord> kStep{
    span(SpanName::comm_wait, 1, 3),      span(SpanName::gather_wait, 1, 3),       span(SpanName::unit_forward, 0, 9),
    span(SpanName::forward, 0, 10),       span(SpanName::gather_wait, 10, 40),     span(SpanName::norm, 41, 43),
    span(SpanName::norm, 43, 48),         span(SpanName::first_backward, 10, 52),  span(SpanName::gather_wait, 52, 55),
    span(SpanName::coefficients, 55, 56), span(SpanName::second_backward, 52, 60), span(SpanName::comm_wait, 60, 62),
    span(SpanName::reduce_wait, 60, 63),  span(SpanName::reduce, 60, 63),          span(SpanName::comm_wait, 64, 66)};

TEST(OwnTimes, EveryPhaseLosesItsOwnWaitAlone) {
  const auto own = own_times(kStep);
  const std::map<std::string, Millis> expected{
      {"forward", Millis(8)},      {"first_backward", Millis(5)},  {"norm", Millis(7)},
      {"gather_wait", Millis(35)}, {"second_backward", Millis(4)}, {"coefficients", Millis(1)},
      {"reduce", Millis(0)},       {"reduce_wait", Millis(3)},     {"comm_wait", Millis(2)}};
  EXPECT_EQ(own.phases, expected);
  const std::map<std::string, Millis> waits{{"forward", Millis(2)},
                                            {"first_backward", Millis(30)},
                                            {"second_backward", Millis(3)},
                                            {"reduce", Millis(3)},
                                            {"other", Millis(2)}};
  EXPECT_EQ(own.waits, waits);
}

TEST(OwnTimes, CountEveryMomentOnce) {
  const auto own = own_times(kStep);
  EXPECT_EQ(std::accumulate(own.phases.begin(), own.phases.end(), Millis(0),
                            [](Millis sum, const auto& phase) { return sum + phase.second; }),
            Millis(65))
      << "66 ms, of which one has no span";
}

TEST(OwnTimes, SpansThatOverlapAreNoPartsOfEachOther) {
  const std::vector<SpanRecord> two{span(SpanName::data, 0, 10), span(SpanName::forward, 5, 20)};
  EXPECT_EQ(own_times(two).phases.at("data"), Millis(10));
  EXPECT_EQ(own_times(two).phases.at("forward"), Millis(15));
}

}  // namespace
}  // namespace shade::profile
