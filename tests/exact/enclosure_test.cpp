// Intervals hold what they stand for, and become narrower with every digit.
#include "shade/exact/enclosure.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include "shade/base/error.h"

namespace shade::exact {
namespace {

using Wide = long double;

bool holds(const Enclosure& interval, Wide value) {
  return static_cast<Wide>(interval.low()) <= value && value <= static_cast<Wide>(interval.high());
}

// A known number in [0, 1): its first `bits` bits, and the number.
struct Sample {
  Enclosure interval;
  Wide value;
};

Sample sample(std::mt19937_64& random, int bits) {
  const auto n = random();
  const std::array words{static_cast<uint32_t>(n >> 32), static_cast<uint32_t>(n)};
  return {Enclosure::fraction(words, bits), static_cast<Wide>(n) * 0x1p-64L};
}

TEST(Enclosure, HoldsEveryResult) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20'000; ++round) {
    const int bits = static_cast<int>(1 + random() % 60);
    const auto [a, x] = sample(random, bits);
    const auto [b, y] = sample(random, bits);
    const Enclosure turned = a.scaled(1) + Enclosure(-1.0);
    ASSERT_TRUE(holds(a, x) && holds(-a, -x) && holds(a + b, x + y) && holds(a * b, x * y) &&
                holds(a.scaled(-3), x / 8));
    ASSERT_TRUE(holds(turned * (-b), (2 * x - 1) * -y)) << "ends of both signs";
    ASSERT_TRUE(holds(a.square_root(), std::sqrt(x)) && holds(a.logarithm(8), std::log(x)));
    ASSERT_TRUE(holds((a + Enclosure(-0.5)).logarithm_of_one_plus(8), std::log1p(x - 0.5L)));
    ASSERT_TRUE(holds(a / (b + Enclosure(0.25)), x / (y + 0.25L)));
    const auto turns = [&](const Enclosure& interval, Wide at) {
      const auto [cosine, sine] = interval.quarter_turn(8);
      const auto eighth = at * std::numbers::pi_v<Wide> / 4;
      return holds(cosine, std::cos(eighth)) && holds(sine, std::sin(eighth));
    };
    ASSERT_TRUE(turns(turned, 2 * x - 1)) << bits << " bits of " << x;
    ASSERT_TRUE(turns(a + Enclosure(-0.3), x - Wide{0.3})) << "with 0 inside of it, if of a few bits";
  }
}

TEST(Enclosure, BecomesNarrower) {
  std::mt19937_64 random(2);
  std::vector<uint32_t> words(8);
  for (auto& word : words) word = static_cast<uint32_t>(random()) | 0x10000000u;
  double before = 2;
  for (int bits = 4; bits <= 52; bits += 4) {
    const auto [cosine, sine] = (Enclosure::fraction(words, bits).scaled(1) + Enclosure(-1.0)).quarter_turn(40);
    const auto value = (-Enclosure::fraction(words, bits).logarithm(40)).square_root() * cosine + sine;
    const double width = value.high() - value.low();
    EXPECT_LE(width, before);
    EXPECT_LE(width, 8 * std::ldexp(1.0, -bits) + 1e-15) << bits;
    before = width;
  }
}

TEST(Enclosure, OfACosineReachesOne) {
  const std::array words{0x40000000u};
  const auto around_zero = Enclosure::fraction(words, 2) + Enclosure(-0.3);  // [-0.05, 0.2]
  EXPECT_EQ(around_zero.quarter_turn(40).cosine.high(), 1);
  EXPECT_NEAR(around_zero.quarter_turn(40).cosine.low(), std::cos(0.2 * std::numbers::pi / 4), 1e-12);
}

TEST(Enclosure, OfAFractionHasItsEnds) {
  const std::array words{0x80000001u, 0xffffffffu};
  for (const auto& [bits, low, high] : {std::tuple{1, 0.5, 1.0},
                                        {31, 0.5, 0.5 + 0x1p-31},
                                        {32, 0.5 + 0x1p-32, 0.5 + 0x1p-31},
                                        {33, 0.5 + 0x1.8p-32, 0.5 + 0x1p-31}}) {
    const auto interval = Enclosure::fraction(words, bits);
    EXPECT_EQ(interval.low(), low) << bits;
    EXPECT_EQ(interval.high(), high) << bits;
  }
  EXPECT_THROW(Enclosure::fraction(words, 65), Error);
  EXPECT_THROW(Enclosure::fraction(words, 0), Error);
}

// An integer is given if all numbers lead to it, and only then.
TEST(Enclosure, TellsTheInteger) {
  const auto between = [](double low, double high) {
    const std::array half{0u};
    return Enclosure(low) + Enclosure::fraction(half, 1).scaled(1) * Enclosure(high - low);  // low to high
  };
  EXPECT_EQ(between(1.75, 2.25).nearest(), 2);
  EXPECT_EQ(between(1.75, 2.25).floor(), std::nullopt);
  EXPECT_EQ(between(2.25, 2.75).nearest(), std::nullopt);
  EXPECT_EQ(between(2.25, 2.75).floor(), 2);
  EXPECT_EQ(between(-0.75, -0.25).floor(), -1);
  EXPECT_EQ(Enclosure(2.5).nearest(), 2) << "the even one";
  EXPECT_EQ(Enclosure(3.5).nearest(), 4);
  EXPECT_EQ(Enclosure(0x1p60).nearest(), 0x1p60);
  const std::array zeros{0u};
  const auto unbounded = -Enclosure::fraction(zeros, 32).logarithm(8);
  EXPECT_EQ(unbounded.high(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(unbounded.nearest(), std::nullopt);
  EXPECT_EQ((unbounded * Enclosure(0.0)).nearest(), std::nullopt) << "infinity times 0";
}

TEST(Enclosure, IsAValue) {
  Enclosure a(1.5), b(2.5);
  const auto copy = a;
  a = b;
  EXPECT_EQ(a.low(), 2.5);
  EXPECT_EQ(copy.low(), 1.5);
  std::vector<Enclosure> many(3, copy);
  many.emplace_back(7.0);
  EXPECT_EQ(many.front().high(), 1.5);
  EXPECT_EQ(many.back().high(), 7.0);
}

}  // namespace
}  // namespace shade::exact
