#include "shade/comm/partition.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace shade::comm {
namespace {

TEST(Partition, SlicesCoverEverythingOnceInOrder) {
  EXPECT_TRUE(rc::check([] {
    const auto total = *rc::gen::inRange<int64_t>(0, 100000);
    const auto ranks = *rc::gen::inRange(1, 70);
    int64_t next = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto slice = slice_of(total, ranks, rank);
      RC_ASSERT(slice.size >= 0 && slice.size <= slice_length(total, ranks));
      if (slice.size > 0) RC_ASSERT(slice.begin == next);
      next += slice.size;
    }
    RC_ASSERT(next == total);
  }));
}

TEST(Partition, TheLastSlicesAreShortOrEmpty) {
  EXPECT_EQ(slice_of(10, 4, 2), (Slice{6, 3}));
  EXPECT_EQ(slice_of(10, 4, 3), (Slice{9, 1}));
  EXPECT_EQ(slice_of(1, 3, 0), (Slice{0, 1}));
  EXPECT_EQ(slice_of(1, 3, 2), (Slice{1, 0}));
}

}  // namespace
}  // namespace shade::comm
