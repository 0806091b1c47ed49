// Whatever the ranks, the lengths and the micro-batch: the same records, the same micro-steps for everybody, and little
// padding.
#include "shade/train/feed/loader.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <numeric>

#include "shade/base/error.h"
#include "shade/data/sampler.h"

namespace shade::train {
namespace {

struct Found {
  std::vector<int64_t> records;          // of all ranks, sorted
  int64_t micro_steps = 0;               // of each rank
  int64_t positions = 0, in_blanks = 0;  // of all ranks: computed, and computed if micro-batches are filled up
};

// Checks what holds of every batch.
Found dealt(const std::vector<Sample>& samples, const MicroShapes& shapes, int ranks) {
  std::vector<std::vector<MicroBatch>> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(deal(samples, shapes, {ranks, rank}));
  Found out{.micro_steps = std::ssize(all[0])};
  EXPECT_GE(out.micro_steps, 1);
  for (const auto& mine : all) {
    EXPECT_EQ(mine.size(), all[0].size());
    for (size_t i = 0; i < mine.size(); ++i) {
      const auto& [records, shape] = mine[i];
      EXPECT_EQ(shape, all[0][i].shape) << "one shape at a time on all ranks";
      EXPECT_EQ(shape, shapes.padded(shape));
      EXPECT_LE(std::ssize(records), shapes.samples(shape));
      EXPECT_LE(std::abs(std::ssize(records) - std::ssize(all[0][i].records)), shapes.samples(shape));
      for (const auto record : records) {
        const auto& sample = samples.at(static_cast<size_t>(record)).shape;
        EXPECT_LE(sample.length, shapes.vary() ? shape.length : sample.length);
        EXPECT_EQ(sample.rows, shape.rows);
        if (shapes.grid() && shapes.vary()) {
          EXPECT_EQ(shape, shapes.padded(sample)) << "by its own length";
        }
      }
      out.positions += std::ssize(records) * shape.positions();
      out.in_blanks += shapes.samples(shape) * shape.positions();
      out.records.insert(out.records.end(), records.begin(), records.end());
    }
  }
  std::sort(out.records.begin(), out.records.end());
  return out;
}

std::vector<Sample> samples_of(const std::vector<int64_t>& lengths, const std::vector<int64_t>& rows = {1}) {
  std::vector<Sample> out;
  for (size_t i = 0; i < lengths.size(); ++i)
    out.push_back({static_cast<int64_t>(i), {rows[i % rows.size()], lengths[i]}});
  return out;
}

std::vector<int64_t> counted(size_t size) {
  std::vector<int64_t> out(size);
  std::iota(out.begin(), out.end(), 0);
  return out;
}

TEST(Deal, EveryRecordOnceForAnyWorldAndMicroBatch) {
  EXPECT_TRUE(rc::check([] {
    const auto count = *rc::gen::inRange<size_t>(0, 60);
    const auto found =
        dealt(samples_of(std::vector<int64_t>(count, 0)), *rc::gen::inRange<int64_t>(1, 20), *rc::gen::inRange(1, 9));
    RC_ASSERT(found.records == counted(count));
  }));
}

MicroShapes any_shapes(int64_t length, int64_t rows) {
  MicroShapes::Options out{.samples = *rc::gen::inRange<int64_t>(1, 12), .full = {rows, length}};
  out.padding = *rc::gen::element(Padding::longest, Padding::longest, Padding::max_length);
  out.grid = *rc::gen::arbitrary<bool>();
  if (*rc::gen::arbitrary<bool>()) out.most = *rc::gen::inRange<int64_t>(1, 40);
  return MicroShapes(out);
}

TEST(Deal, EveryRecordOnceForAnyLengths) {
  EXPECT_TRUE(rc::check([] {
    const auto longest = *rc::gen::inRange<int64_t>(1, 600);
    const auto lengths = *rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(1, longest + 1));
    const auto shapes = any_shapes(longest, 1);
    const auto ranks = *rc::gen::inRange(1, 9);
    const auto found = dealt(samples_of(lengths), shapes, ranks);
    RC_ASSERT(found.records == counted(lengths.size()));
    // Never more than if all were padded to the full length, and on the grid less than twice what there is.
    const auto full = std::ssize(lengths) * longest;
    RC_ASSERT(found.positions <= full);
    int64_t own = 0;
    for (const auto length : lengths) own += std::max<int64_t>(16, 2 * length - 1);
    if (shapes.vary() && shapes.grid()) RC_ASSERT(found.positions <= own);
  }));
}

// A user's sample has several rows, and its micro-batches as many for each.
TEST(Deal, SamplesOfUnequalRowsAreComputedApart) {
  EXPECT_TRUE(rc::check([] {
    const auto lengths = *rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(1, 100));
    const auto found =
        dealt(samples_of(lengths, {1, 2, 4}),
              MicroShapes(
                  {.samples = *rc::gen::inRange<int64_t>(1, 6), .full = {4, 100}, .grid = *rc::gen::arbitrary<bool>()}),
              *rc::gen::inRange(1, 5));
    RC_ASSERT(found.records == counted(lengths.size()));
  }));
}

// Lengths as the descriptions of Debian's packages have them: mostly short, a few long.
std::vector<int64_t> short_texts(size_t count) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < count; ++i) out.push_back(12 + static_cast<int64_t>(i * 7919 % 48) + (i % 50 == 0 ? 150 : 0));
  return out;
}

TEST(Deal, ShortTextsCostLittlePadding) {
  const auto lengths = short_texts(256);
  const auto tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  for (const int ranks : {1, 2, 4}) {
    const auto with = [&](MicroShapes::Options options) {
      options.samples = 8;
      options.full = {1, 512};
      return dealt(samples_of(lengths), MicroShapes(options), ranks);
    };
    const auto longest = with({});
    EXPECT_LT(static_cast<double>(longest.positions), 1.25 * static_cast<double>(tokens));
    EXPECT_LE(longest.micro_steps, 8) << "some short texts are padded more, to save a micro-step";
    EXPECT_LT(static_cast<double>(with({.grid = true}).positions), 1.5 * static_cast<double>(tokens));
    const auto blanks = with({.grid = true, .most = 256 / (4 * ranks)});
    EXPECT_LT(3 * blanks.in_blanks, 256 * 512) << "filled up with blank samples";
    EXPECT_EQ(with({.padding = Padding::max_length}).positions, 256 * 512);
  }
}

TEST(MicroShapes, SayWhatSamplesArePaddedTo) {
  const MicroShapes longest({.samples = 4, .full = {1, 100}});
  const MicroShapes grid({.samples = 4, .full = {1, 100}, .grid = true, .most = 9});
  const MicroShapes full({.samples = 4, .full = {1, 100}, .padding = Padding::max_length});
  for (const auto& [length, multiple, on_grid] : {std::tuple<int64_t, int64_t, int64_t>{1, 8, 16},
                                                  {16, 16, 16},
                                                  {17, 24, 24},
                                                  {25, 32, 32},
                                                  {33, 40, 48},
                                                  {65, 72, 96},
                                                  {97, 100, 100},
                                                  {100, 100, 100}}) {
    EXPECT_EQ(longest.padded({1, length}).length, multiple);
    EXPECT_EQ(grid.padded({1, length}).length, on_grid);
    EXPECT_EQ(full.padded({1, length}).length, 100);
  }
  EXPECT_EQ(longest.samples({1, 8}), 50) << "as many positions as 4 of 100";
  EXPECT_EQ(longest.samples({2, 8}), 25);
  EXPECT_EQ(longest.samples({1, 100}), 4);
  EXPECT_EQ(grid.samples({1, 16}), 9);
  EXPECT_EQ(grid.at_most(1).samples({1, 16}), 1);
  EXPECT_EQ(full.samples({1, 100}), 4);
  EXPECT_EQ(grid.count(), 7) << "16, 24, 32, 48, 64, 96, 100";
  EXPECT_EQ(full.count(), 1);
  EXPECT_EQ(MicroShapes({.samples = 1, .full = {5, 16}, .grid = true}).count(), 4) << "1, 2, 4 and 5 rows";
  EXPECT_EQ(longest.describe(),
            "4 samples of 100 tokens at a time or up to 50 shorter ones, padded to the longest of them");
  EXPECT_EQ(grid.describe(),
            "4 samples of 100 tokens at a time or up to 9 shorter ones, padded to the next of 16, 24, 32, 48, 64, ...");
  EXPECT_EQ(full.describe(), "4 samples of 100 tokens at a time");
  EXPECT_EQ(MicroShapes(1).describe(), "1 sample at a time");
}

TEST(Deal, RefusesMicroBatchesOfNoSample) {
  EXPECT_THROW(deal(samples_of({0}), 0, {1, 0}), UsageError);
  EXPECT_THROW(deal(samples_of({5}), MicroShapes({.full = {1, 8}}), {1, 0}), UsageError);
}

// Batches as training draws them, small enough that ranks and whole steps are empty.
TEST(Deal, PoissonStepsWithEmptyRanks) {
  const auto sampler = data::make_poisson({3}, {.records = 100, .rate = 0.02});
  int64_t empty_ranks = 0, empty_steps = 0;
  for (int64_t step = 0; step < 2000; ++step) {
    const auto drawn = std::ssize(sampler->draw(step));
    const auto samples = samples_of(std::vector<int64_t>(static_cast<size_t>(drawn), 0));
    for (int ranks = 1; ranks <= 4; ++ranks) ASSERT_EQ(std::ssize(dealt(samples, 2, ranks).records), drawn);
    empty_ranks += deal(samples, 2, {4, 3})[0].records.empty() ? 1 : 0;
    empty_steps += drawn == 0 ? 1 : 0;
  }
  EXPECT_GT(empty_ranks, 500);
  EXPECT_GT(empty_steps, 100);
}

}  // namespace
}  // namespace shade::train
