// What the noise is made of: random words, normal numbers from them, and sums on the grid.
#include "shade/privacy/normal.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <random>
#include <vector>

#include "shade/base/error.h"
#include "shade/privacy/chacha20.h"
#include "shade/privacy/grid.h"

namespace shade::privacy {
namespace {

constexpr size_t kPairs = kNormalChunk / 2;
using Words = std::array<uint32_t, kNormalWords>;
using Exact = std::array<long double, kNormalChunk>;

// Box and Muller with libm's functions of 64 bits.
Exact reference(const Words& words) {
  Exact out{};
  for (size_t i = 0; i < kPairs; ++i) {
    const auto n = static_cast<uint64_t>(words[i]) << 32 | words[kPairs + i];
    const auto direction = static_cast<uint64_t>(words[2 * kPairs + i]) << 32 | words[3 * kPairs + i];
    const auto half = [](uint64_t of) { return (static_cast<long double>(of) + 0.5L) * 0x1p-64L; };
    const long double radius = std::sqrt(-2 * (n >> 63 != 0 ? std::log1p(-half(~n)) : std::log(half(n))));
    const auto inside = static_cast<long double>(static_cast<int64_t>(direction << 2) >> 2) + 0.5L;
    const long double angle = inside * 0x1p-61L * std::numbers::pi_v<long double> / 4;
    const long double s = std::sin(angle), c = (direction >> 63 != 0 ? -1 : 1) * std::cos(angle);
    const bool swap = (direction >> 62 & 1u) != 0;
    out[i] = radius * (swap ? s : c);
    out[kPairs + i] = radius * (swap ? c : s);
  }
  return out;
}

// Random words, or those near the ends of an exponent, of a part of a word, of a quarter of the circle.
uint32_t word(std::mt19937& random, bool edge) {
  static constexpr std::array<uint32_t, 20> kEdges{0u,          1u,          2u,          0xffu,       0x100u,
                                                   0xffffu,     0x10000u,    0x1fffffffu, 0x20000000u, 0x3fffffffu,
                                                   0x40000000u, 0x5a827999u, 0x7fffffffu, 0x80000000u, 0xb504f333u,
                                                   0xb504f334u, 0xbfffffffu, 0xc0000000u, 0xfffffffeu, 0xffffffffu};
  return edge && random() % 2 == 0 ? kEdges[random() % kEdges.size()] : static_cast<uint32_t>(random());
}

Words words(std::mt19937& random, bool edges) {
  Words out{};
  for (auto& w : out) w = word(random, edges);
  if (!edges) return out;
  for (size_t i = 0; i < kPairs; ++i) {  // radii of every size
    if (random() % 2 == 0) out[i] >>= random() % 32;
    if (random() % 2 == 0) out[i] = ~out[i];
  }
  return out;
}

long double value(const Normals& drawn, size_t i) {
  return static_cast<long double>(drawn.high[i]) + static_cast<long double>(drawn.low[i]);
}

// Ours are libsodium's blocks, sixteen side by side; also where the counter needs more than 32 bits.
TEST(Normals, BitsAreChaCha20) {
  std::array<uint8_t, 32> key{};
  for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<uint8_t>(7 * i + 1);
  for (const uint64_t chunk : {0ull, 1ull, 12345ull, (1ull << 28) - 1, 1ull << 28, 1ull << 40}) {
    std::array<uint32_t, kChaChaWords> found{}, wanted{};
    chacha20_chunk(key.data(), chunk, found.data());
    const uint8_t nonce[8] = {};
    auto* bytes = reinterpret_cast<uint8_t*>(wanted.data());
    crypto_stream_chacha20_xor_ic(bytes, bytes, sizeof wanted, nonce, 16 * chunk, key.data());
    for (size_t block = 0; block < 16; ++block)
      for (size_t word = 0; word < 16; ++word)
        ASSERT_EQ(found[16 * word + block], wanted[16 * block + word]) << "chunk " << chunk;
  }
}

// Where the radius needs more than 64 bits the numbers are NaN. The worst error over 20 million others was 2^-42.2.
TEST(Normals, AgreeWithLibm) {
  std::mt19937 random(7);
  long double worst = 0, sum = 0;
  constexpr int kRounds = 4000;
  for (int round = 0; round < kRounds; ++round) {
    const auto bits = words(random, round % 2 == 0);
    const auto wanted = reference(bits);
    Normals found;
    normals(bits.data(), found);
    for (size_t i = 0; i < kNormalChunk; ++i) {
      ASSERT_EQ(std::isnan(found.high[i]), bits[i % kPairs] == 0);
      if (bits[i % kPairs] == 0) continue;
      const long double error = std::abs(value(found, i) - wanted[i]);
      ASSERT_LT(error, 0x1p-42L) << "number " << i << " of round " << round;
      worst = std::max(worst, error), sum += error;
    }
  }
  EXPECT_LT(sum / (kRounds * kNormalChunk), 0x1p-46L);
  EXPECT_GT(worst, 0x1p-50L) << "the reference is no longer another computation";
}

TEST(Normals, AllVariantsGiveTheSameBits) {
  std::mt19937 random(8);
  for (int round = 0; round < 2000; ++round) {
    const auto bits = words(random, round % 2 == 0);
    Normals first, other;
    normals(bits.data(), first, Variant::portable);
    for (const auto variant : variants()) {
      normals(bits.data(), other, variant);
      ASSERT_EQ(std::memcmp(&first, &other, sizeof first), 0) << "round " << round << ", variant " << int(variant);
    }
  }
}

// A radius beyond t has the probability exp(-t^2 / 2): that many of the 2^64 words, which are the smallest.
TEST(Normals, TailsHaveTheirProbability) {
  const auto radius = [](uint64_t n) {
    Words bits{};
    bits[0] = static_cast<uint32_t>(n >> 32), bits[kPairs] = static_cast<uint32_t>(n);
    Normals found;
    normals(bits.data(), found);
    return std::isnan(found.high[0]) ? 7 : std::hypot(value(found, 0), value(found, kPairs));
  };
  for (const long double t : {1.0L, 3.0L, 5.0L, 6.0L, 6.65L}) {
    uint64_t below = 0, from = ~uint64_t{0};  // radius(below) > t >= radius(from)
    while (from - below > 1) {
      const uint64_t middle = below + (from - below) / 2;
      (radius(middle) > t ? below : from) = middle;
    }
    const long double share = (static_cast<long double>(from)) * 0x1p-64L, wanted = std::exp(-t * t / 2);
    EXPECT_NEAR(static_cast<double>(share / wanted), 1, 1e-11 + 0x1p-64 / static_cast<double>(wanted)) << t;
  }
}

// Against the exact sum of the reference, rounded once. What is undecided stays, and is as rare as the margin says.
TEST(Grid, SumsAreTheExactOnesRounded) {
  for (const auto variant : variants()) {
    std::mt19937 random(9);
    int64_t all = 0, left = 0;
    for (int round = 0; round < 4000; ++round) {
      const double deviation = std::exp(std::uniform_real_distribution(-20.0, 20.0)(random));
      const Grid grid(deviation);
      EXPECT_LE(grid.spacing, deviation * 0x1p-10);
      EXPECT_GT(grid.spacing, deviation * 0x1p-11);
      const long double made = static_cast<long double>(grid.spacing) *
                               (static_cast<long double>(grid.scale.high) + static_cast<long double>(grid.scale.low));
      EXPECT_GE(made, deviation);
      EXPECT_LE(made, deviation * (1 + 0x1p-48L));
      const double width = deviation * std::exp(std::uniform_real_distribution(-8.0, 6.0)(random));
      const auto bits = words(random, false);
      Normals drawn;
      normals(bits.data(), drawn);
      const auto z = reference(bits);
      std::vector<double> sums(kNormalChunk), found;
      for (auto& sum : sums) sum = std::normal_distribution(0.0, width)(random);
      std::vector<uint8_t> undecided(kNormalChunk, 2);
      add_on_grid(grid, drawn, 0, kNormalChunk, (found = sums).data(), undecided.data(), variant);
      for (size_t i = 0; i < kNormalChunk; ++i, ++all) {
        const long double steps = (static_cast<long double>(sums[i]) + made * z[i]) / grid.spacing;
        const auto nearest = std::nearbyint(steps);
        const bool close = std::abs(std::abs(steps - nearest) - 0.5L) < 0x1p-20L;
        left += undecided[i];
        if (undecided[i] == 0)
          ASSERT_TRUE(static_cast<long double>(found[i]) == nearest * grid.spacing &&
                      !(found[i] == 0 && std::signbit(found[i])))
              << steps;
        else
          ASSERT_TRUE(found[i] == sums[i] && undecided[i] == 1 && (close || bits[i % kPairs] == 0)) << steps;
      }
    }
    EXPECT_LE(left, 12) << "of " << all << ", 2 expected";
  }
}

TEST(Grid, AllVariantsGiveTheSameBits) {
  EXPECT_TRUE(rc::check([] {
    std::mt19937 random(*rc::gen::arbitrary<uint32_t>());
    const Grid grid(std::exp(std::uniform_real_distribution(-60.0, 60.0)(random)));
    Normals drawn;
    normals(words(random, true).data(), drawn);
    const auto first = static_cast<int64_t>(random() % kNormalChunk);
    const auto count = static_cast<size_t>(kNormalChunk - first);
    const double width = grid.spacing * std::exp(std::uniform_real_distribution(0.0, 25.0)(random));
    std::vector<double> sums(count);
    for (auto& sum : sums) sum = std::normal_distribution(0.0, width)(random);
    for (size_t i = 0; i < count; i += 3) {  // and sums next to the middle between two multiples
      const auto at = static_cast<size_t>(first) + i;
      const double noise = static_cast<double>(drawn.high[at]) * static_cast<double>(grid.scale.high);
      if (!std::isnan(noise)) {
        const double away = (static_cast<double>(random() % 64) - 32) * 0x1p-24;
        sums[i] = (std::floor(sums[i] / grid.spacing) + 0.5 - noise + away) * grid.spacing;
      }
    }
    const auto added = [&](Variant variant) {
      auto out = std::pair(sums, std::vector<uint8_t>(count));
      add_on_grid(grid, drawn, first, kNormalChunk - first, out.first.data(), out.second.data(), variant);
      return out;
    };
    const auto wanted = added(Variant::portable);
    for (const auto variant : variants()) RC_ASSERT(added(variant) == wanted);
  }));
}

// What is beyond the range of the proof is left undecided, and so is what is not finite.
TEST(Grid, LeavesWhatItCanNotTell) {
  Words bits{};
  for (auto& w : bits) w = 0x12345678;
  Normals drawn;
  normals(bits.data(), drawn);
  for (const double sum : {0x1.1p20, -0x1.1p20, 1e300, double{INFINITY}, -double{INFINITY}, double{NAN}})
    for (const auto variant : variants()) {
      std::array<double, 16> sums;
      std::array<uint8_t, 16> undecided{};
      sums.fill(sum);
      add_on_grid(Grid(1), drawn, 0, 16, sums.data(), undecided.data(), variant);
      for (size_t i = 0; i < 16; ++i) EXPECT_TRUE((sums[i] == sum || std::isnan(sum)) && undecided[i] == 1) << sum;
    }
  for (const double deviation : {-1.0, 1e-31, 1e31, double{NAN}, double{INFINITY}})
    EXPECT_THROW(Grid{deviation}, Error);
}

}  // namespace
}  // namespace shade::privacy
