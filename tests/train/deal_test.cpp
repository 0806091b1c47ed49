// Whatever the ranks and the micro-batch: the same records, the same number of micro-steps for everybody.
#include "shade/train/deal.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <numeric>

#include "shade/data/sampler.h"

namespace shade::train {
namespace {

// The union over ranks, in rank order; checks that all ranks make the same number of micro-steps.
std::vector<int64_t> together(const std::vector<int64_t>& records, int ranks, int64_t micro_batch) {
  std::vector<int64_t> all;
  size_t micro_steps = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto mine = deal(records, ranks, rank, micro_batch);
    if (rank == 0) micro_steps = mine.size();
    EXPECT_EQ(mine.size(), micro_steps);
    EXPECT_GE(mine.size(), 1u);
    for (const auto& micro : mine) {
      EXPECT_LE(static_cast<int64_t>(micro.size()), micro_batch);
      all.insert(all.end(), micro.begin(), micro.end());
    }
  }
  return all;
}

TEST(Deal, EveryRecordOnceForAnyWorldAndMicroBatch) {
  EXPECT_TRUE(rc::check([] {
    std::vector<int64_t> records(*rc::gen::inRange<size_t>(0, 60));
    std::iota(records.begin(), records.end(), 5);
    RC_ASSERT(together(records, *rc::gen::inRange(1, 9), *rc::gen::inRange<int64_t>(1, 20)) == records);
  }));
}

// Batches as training draws them, small enough that ranks and whole steps are empty.
TEST(Deal, PoissonStepsWithEmptyRanks) {
  const auto sampler = data::make_poisson({3}, {.records = 100, .rate = 0.02});
  int64_t empty_ranks = 0, empty_steps = 0;
  for (int64_t step = 0; step < 2000; ++step) {
    const auto records = sampler->draw(step);
    for (int ranks = 1; ranks <= 4; ++ranks) ASSERT_EQ(together(records, ranks, 2), records) << "step " << step;
    empty_ranks += deal(records, 4, 3, 2)[0].empty() ? 1 : 0;
    empty_steps += records.empty() ? 1 : 0;
  }
  EXPECT_GT(empty_ranks, 500);
  EXPECT_GT(empty_steps, 100);
}

}  // namespace
}  // namespace shade::train
