// The law of the gaps between drawn records: geometric, exactly. By enumeration of short strings, and against
// intervals.
#include "shade/data/gap.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <random>
#include <vector>

namespace shade::data {
namespace {

constexpr int64_t kNoLimit = int64_t{1} << 40;

// All strings of `bits` bits and their extensions by a bit each, until their gap is decided.
class SmallLaw {
 public:
  SmallLaw(double rate, int bits, int most_bits) : gap_(rate), most_bits_(most_bits) {
    for (uint32_t prefix = 0; prefix < 1u << bits; ++prefix) visit(prefix, bits);
  }
  std::map<int64_t, double> decided;
  double undecided = 0;

 private:
  void visit(uint32_t prefix, int bits) {
    const std::array words{prefix << (32 - bits)};
    if (const auto gap = gap_.by_intervals(words, bits, kNoLimit))
      decided[*gap] += std::ldexp(1.0, -bits);
    else if (bits == most_bits_)
      undecided += std::ldexp(1.0, -bits);
    else
      for (const uint32_t next : {0u, 1u}) visit(2 * prefix + next, bits + 1);
  }
  Gap gap_;
  int most_bits_;
};

TEST(Gap, OfFewBitsIsGeometric) {
  for (const double rate : {0.9, 0.5, 0.3, 0.02})
    for (const int bits : {8, 12}) {
      const SmallLaw law(rate, bits, 24);
      EXPECT_LT(law.undecided, 0x1p-12) << rate;
      double all = law.undecided;
      for (const auto& [gap, probability] : law.decided) {
        const double wanted = std::pow(1 - rate, static_cast<double>(gap)) * rate;
        EXPECT_LE(probability, wanted * (1 + 1e-12)) << "gap " << gap << " at rate " << rate;
        EXPECT_GE(probability, wanted - 3 * 0x1p-24 - 1e-15) << "gap " << gap << " at rate " << rate;
        all += probability;
      }
      EXPECT_NEAR(all, 1, 1e-12);
    }
}

// What the fast path decides, intervals decide the same; what it leaves is next to an integer, or a small U.
TEST(Gap, FastPathIsRight) {
  std::mt19937_64 random(1);
  int64_t left = 0, all = 0;
  for (const double rate : {0.999999, 0.7, 0.25, 0.2499999, 0.01, 1e-4, 1e-7, 1e-12}) {
    const Gap gap(rate);
    for (int round = 0; round < 4000; ++round, ++all) {
      auto n = random();
      if (round % 4 == 1) n >>= random() % 30;
      if (round % 4 == 2) n = ~(n >> random() % 64);
      if (round % 4 == 3) {  // next to the border of a gap
        const double border = std::pow(1 - rate, static_cast<double>(random() % 50));
        n = static_cast<uint64_t>(std::min(border * 0x1p64, 0x1.fffffffffffffp63)) + random() % 4097 - 2048;
      }
      const std::array words{static_cast<uint32_t>(n >> 32), static_cast<uint32_t>(n)};
      for (const int64_t most : {kNoLimit, int64_t{3}}) {
        const auto fast = gap.by_words(n, most), exact = gap.by_intervals(words, 64, most);
        if (fast && exact) ASSERT_EQ(*fast, *exact) << n << " at rate " << rate;
        left += !fast && most == kNoLimit ? 1 : 0;
      }
    }
  }
  EXPECT_LT(left, all / 2);
}

// The first word of a stream decides but for one in a million, and the same stream gives the same gaps.
TEST(Gap, HardlyEverNeedsMoreBits) {
  const Gap gap(0.01);
  std::mt19937_64 random(2);
  int64_t left = 0;
  constexpr int64_t kDraws = 1'000'000;
  for (int64_t i = 0; i < kDraws; ++i) left += gap.by_words(random(), kNoLimit) ? 0 : 1;
  EXPECT_LE(left, 8) << "2^-20 of the draws have a U below 2^-20, and few are next to an integer";
}

TEST(Gap, OfNothingKnownIsTheMost) {
  const Gap gap(0.5);
  for (const uint64_t n : {uint64_t{0}, uint64_t{1}, uint64_t{1000}, (uint64_t{1} << 44) - 1})
    for (const double rate : {0.5, 0.3}) EXPECT_FALSE(Gap(rate).by_words(n, kNoLimit)) << "ln U is not known";
  const std::array<uint32_t, 4> zeros{};
  EXPECT_FALSE(gap.by_intervals(zeros, 64, kNoLimit));
  EXPECT_EQ(gap.by_intervals(zeros, 64, 60), 60) << "U is below 2^-64";
  EXPECT_EQ(gap.by_intervals(std::array{0u, 0u, 0xc0000000u}, 96, kNoLimit), 64);
  EXPECT_EQ(gap.by_words(~uint64_t{0}, kNoLimit), 0);
}

}  // namespace
}  // namespace shade::data
