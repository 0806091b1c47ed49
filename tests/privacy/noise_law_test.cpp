// The law of the released noise: the ideal one, rounded. At small size by enumeration, at full size by another
// computation (MPFR without intervals).
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sodium.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <numbers>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "shade/base/error.h"
#include "shade/base/input_text.h"
#include "shade/base/json.h"
#include "shade/privacy/exact_arithmetic.h"
#include "shade/privacy/ideal_normal.h"
#include "shade/privacy/noise.h"
#include "shade/privacy/noise_lane.h"

namespace shade::privacy {
namespace {

using exact::Enclosure;

// The sampler with a few bits for the radius and the direction of a pair, and one more bit for each at an extension.
// All words and extensions are met; a pair of cells gets the probability of the strings that are decided for it.
class SmallLaw {
 public:
  struct Setting {
    int radius_bits, direction_bits, extensions;
    double deviation, sum[2];  // in spacings
  };
  SmallLaw(const Setting& setting, int finer) : setting_(setting), extensions_(setting.extensions + finer), grid_(1) {
    grid_.spacing = grid_.inverse = 1;
    grid_.scale = {static_cast<float>(setting.deviation), 0};
    radii_.resize(static_cast<size_t>(extensions_) + 1), directions_.resize(radii_.size());
    for (uint32_t r = 0; r < 1u << setting.radius_bits; ++r)
      for (uint32_t d = 0; d < 1u << setting.direction_bits; ++d) begin(r, d);
  }

  using Cells = std::array<int, 2>;
  std::map<Cells, double> decided, touched;  // probabilities
  double undecided = 0, fast = 0;

  double ideal(const Cells& cells) const { return ideal(cells[0], setting_.sum[0]) * ideal(cells[1], setting_.sum[1]); }
  static constexpr int kFarthest = 3;

 private:
  using Known = std::array<std::optional<double>, 2>;

  double ideal(int cell, double sum) const {
    const auto above = [&](double border) {
      return std::erfc(static_cast<long double>(border - sum) / setting_.deviation /
                       std::numbers::sqrt2_v<long double>) /
             2;
    };
    return static_cast<double>(above(cell - 0.5) - above(cell + 0.5));
  }

  // The leading bits of a string, in its first word.
  static uint32_t leading(uint32_t prefix, int bits) { return prefix << (32 - bits); }

  const Enclosure& radius(uint32_t prefix, int level) {
    auto& at = radii_[static_cast<size_t>(level)];
    const auto bits = setting_.radius_bits + level;
    at.resize(size_t{1} << bits);
    if (!at[prefix]) at[prefix] = ideal_radius(std::array{leading(prefix, bits)}, bits);
    return *at[prefix];
  }
  const IdealDirection& direction(uint32_t prefix, int level) {
    auto& at = directions_[static_cast<size_t>(level)];
    const auto bits = setting_.direction_bits + level;
    at.resize(size_t{1} << bits);
    if (!at[prefix]) at[prefix] = ideal_direction(std::array{leading(prefix, bits)}, bits);
    return *at[prefix];
  }
  Enclosure steps(uint32_t r, uint32_t d, int level, int which) {
    const auto& at = direction(d, level);
    return ideal_steps(grid_, setting_.sum[which], radius(r, level) * (which == 0 ? at.along : at.across));
  }

  // The fast path, by the middle of the words and a bound of what the bits that follow can change.
  void begin(uint32_t r, uint32_t d) {
    const auto middle = [](uint32_t prefix, int bits) { return leading(2 * prefix + 1, bits + 1); };
    const auto pair = normal_pair<true>(normal_radius<true>(middle(r, setting_.radius_bits), 0),
                                        middle(d, setting_.direction_bits), 0);
    Known known;
    for (const int which : {0, 1}) {
      const auto& number = which == 0 ? pair.along : pair.across;
      const auto within = steps(r, d, 0, which);
      const double value = setting_.sum[which] +
                           (static_cast<double>(number.high) + static_cast<double>(number.low)) * setting_.deviation;
      const double margin = std::max(within.high() - value, value - within.low()) + 0x1p-20;
      const auto sum = sum_on_grid<true>(grid_, setting_.sum[which], number, margin);
      if (sum.decided) known[static_cast<size_t>(which)] = sum.value;
    }
    if (known[0] && known[1]) fast += probability(0);
    visit(r, d, 0, known);
  }

  double probability(int level) const {
    return std::ldexp(1.0, -(setting_.radius_bits + setting_.direction_bits + 2 * level));
  }

  void visit(uint32_t r, uint32_t d, int level, Known known) {
    for (const int which : {0, 1})
      if (auto& one = known[static_cast<size_t>(which)]; !one) one = steps(r, d, level, which).nearest();
    if (known[0] && known[1]) {
      decided[{static_cast<int>(*known[0]), static_cast<int>(*known[1])}] += probability(level);
    } else if (level == extensions_) {
      undecided += probability(level);
      touch(r, d, known);
    } else {
      for (const uint32_t bits : {0u, 1u, 2u, 3u}) visit(2 * r + bits % 2, 2 * d + bits / 2, level + 1, known);
    }
  }

  void touch(uint32_t r, uint32_t d, const Known& known) {
    std::array<int, 2> from, to;
    for (const int which : {0, 1}) {
      const auto at = static_cast<size_t>(which);
      const auto clipped = [](double x) {
        return static_cast<int>(std::lround(std::clamp<double>(x, -kFarthest - 1, kFarthest + 1)));
      };
      if (known[at]) {
        from[at] = to[at] = clipped(*known[at]);
      } else {
        const auto within = steps(r, d, extensions_, which);
        from[at] = std::isfinite(within.low()) ? clipped(within.low()) : -kFarthest - 1;
        to[at] = std::isfinite(within.high()) ? clipped(within.high()) : kFarthest + 1;
      }
    }
    for (int a = from[0]; a <= to[0]; ++a)
      for (int b = from[1]; b <= to[1]; ++b) touched[{a, b}] += probability(extensions_);
  }

  Setting setting_;
  int extensions_;
  Grid grid_;
  std::vector<std::vector<std::optional<Enclosure>>> radii_;
  std::vector<std::vector<std::optional<IdealDirection>>> directions_;
};

bool all_cases() { return std::getenv("SHADE_FULL_MATRIX") != nullptr; }

TEST(NoiseLaw, OfFewBitsIsTheIdealOneRounded) {
  const int finer = all_cases() ? 4 : 0;
  std::vector<SmallLaw::Setting> settings{
      {8, 8, 8, 0.5, {0, 0}}, {9, 8, 7, 0.35, {0.3, -0.2}}, {10, 8, 7, 0.5, {0.5, 0.125}}};
  if (all_cases()) settings.insert(settings.end(), {{12, 12, 4, 0.5, {0.5, 0.125}}, {8, 12, 8, 0.25, {0.3, 0.7}}});
  for (const auto& setting : settings) {
    SCOPED_TRACE(testing::Message() << setting.radius_bits << " and " << setting.direction_bits << " bits");
    const SmallLaw law(setting, finer);
    EXPECT_LT(law.undecided, std::ldexp(1.0, -12 - finer));
    EXPECT_GT(law.fast, 0.5) << "the fast path decides most";
    constexpr double kRounding = 1e-14;  // of the probabilities that this test computes
    double all = law.undecided;
    for (const auto& [cells, probability] : law.decided) {
      all += probability;
      EXPECT_LE(probability, law.ideal(cells) + kRounding) << cells[0] << ", " << cells[1];
    }
    EXPECT_NEAR(all, 1, kRounding);
    for (int a = -SmallLaw::kFarthest; a <= SmallLaw::kFarthest; ++a)
      for (int b = -SmallLaw::kFarthest; b <= SmallLaw::kFarthest; ++b) {
        const SmallLaw::Cells cells{a, b};
        const auto of = [&](const auto& map) { return map.contains(cells) ? map.at(cells) : 0.0; };
        EXPECT_GE(of(law.decided) + of(law.touched), law.ideal(cells) - kRounding) << a << ", " << b;
      }
  }
}

// Another computation of a pair: with the middle of its 64 + 64 bits, by MPFR at 160 bits.
struct Reference {
  exact::Real radius{160}, angle{160}, u{160}, along{160}, across{160}, steps{160}, nearest{160};

  void draw(uint32_t radius_high, uint32_t radius_low, uint32_t high, uint32_t low) {
    mpfr_set_ui(u, radius_high, MPFR_RNDN);
    mpfr_mul_2ui(u, u, 32, MPFR_RNDN);
    mpfr_add_ui(u, u, radius_low, MPFR_RNDN);
    mpfr_add_d(u, u, 0.5, MPFR_RNDN);
    mpfr_div_2ui(u, u, 64, MPFR_RNDN);
    mpfr_log(radius, u, MPFR_RNDN);
    mpfr_mul_si(radius, radius, -2, MPFR_RNDN);
    mpfr_sqrt(radius, radius, MPFR_RNDN);
    const auto inside = static_cast<int64_t>((static_cast<uint64_t>(high) << 32 | low) << 2) >> 2;
    mpfr_set_sj(angle, inside, MPFR_RNDN);
    mpfr_add_d(angle, angle, 0.5, MPFR_RNDN);
    mpfr_div_2ui(angle, angle, 63, MPFR_RNDN);  // 2^-61 / 4
    mpfr_const_pi(across, MPFR_RNDN);
    mpfr_mul(angle, angle, across, MPFR_RNDN);
    mpfr_sin_cos(across, along, angle, MPFR_RNDN);
    if ((high & 0x80000000u) != 0) mpfr_neg(along, along, MPFR_RNDN);
    if ((high & 0x40000000u) != 0) mpfr_swap(along, across);
    mpfr_mul(along, along, radius, MPFR_RNDN);
    mpfr_mul(across, across, radius, MPFR_RNDN);
  }

  // The nearest integer to (sum + deviation X) / spacing, and how far that is from the middle between two.
  std::pair<double, double> rounded(const Grid& grid, double sum, bool second) {
    mpfr_mul_d(steps, second ? across : along,
               static_cast<double>(grid.scale.high) + static_cast<double>(grid.scale.low), MPFR_RNDN);
    mpfr_add_d(steps, steps, sum * static_cast<double>(grid.inverse), MPFR_RNDN);
    mpfr_rint(nearest, steps, MPFR_RNDN);
    mpfr_sub(steps, steps, nearest, MPFR_RNDN);
    return {mpfr_get_d(nearest, MPFR_RNDN), 0.5 - std::abs(mpfr_get_d(steps, MPFR_RNDN))};
  }
};

struct Counts {
  int64_t slow = 0, different = 0, close = 0;
};

// Chunks [from, to) of a stream of random words, by the kernel of the host and as `Reference` has them.
Counts compared(uint64_t seed, int64_t from, int64_t to) {
  Counts out;
  Reference reference;
  const Noise noise(seeded_key(seed));
  const double deviation = 0.7310585786300049;
  const auto task = noise.task(deviation, 1, 0, 0, kNormalChunk * to);
  std::vector<double> sums(kNormalChunk), found, fast;
  for (auto chunk = from; chunk < to; ++chunk) {
    for (int i = 0; i < kNormalChunk; ++i)
      sums[static_cast<size_t>(i)] = std::ldexp(static_cast<double>((chunk * 31 + i) % 1009) - 500, -9) * 1.1;
    auto tensor = at::from_blob((found = sums).data(), {kNormalChunk}, at::kDouble);
    noise.add(tensor, deviation, 1, 0, kNormalChunk * chunk);
    for (int lane = 0; lane < kLanes; ++lane) {
      NoiseTask one = task;
      one.begin = kNormalChunk * chunk, one.end = one.begin + kNormalChunk;
      out.slow += std::popcount(add_noise_of_lane<true>(one, chunk, lane, (fast = sums).data()));
      uint32_t radius[16], direction[16];
      chacha20_words(task.key, static_cast<uint64_t>(2 * kLanes * chunk + lane), radius);
      chacha20_words(task.key, static_cast<uint64_t>(2 * kLanes * chunk + kLanes + lane), direction);
      for (int w = 0; w < 8; ++w) {
        reference.draw(radius[w], radius[w + 8], direction[w], direction[w + 8]);
        for (const bool second : {false, true}) {
          const auto at = static_cast<size_t>(kLanes * w + lane + (second ? kNormalChunk / 2 : 0));
          const auto [steps, distance] = reference.rounded(task.grid, sums[at], second);
          // Closer than what the bits beyond the 64th can change, the reference can't tell either.
          const bool close = distance < 0x1p-40 || radius[w] < 16;
          out.close += close ? 1 : 0;
          out.different += !close && found[at] != steps * static_cast<double>(task.grid.spacing) ? 1 : 0;
        }
      }
    }
  }
  return out;
}

// Each released number is the ideal one, rounded: SHADE_NOISE_NUMBERS of them.
TEST(NoiseLaw, OfFullSizeIsTheIdealOneRounded) {
  const char* const asked = std::getenv("SHADE_NOISE_NUMBERS");
  const int64_t chunks = (asked != nullptr ? std::atoll(asked) : all_cases() ? 10'000'000 : 100'000) / kNormalChunk;
  constexpr int kThreads = 2;
  std::vector<Counts> counts(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back(
        [&, i] { counts[static_cast<size_t>(i)] = compared(11, i * chunks / kThreads, (i + 1) * chunks / kThreads); });
  for (auto& thread : threads) thread.join();
  Counts all;
  for (const auto& one : counts) all.slow += one.slow, all.different += one.different, all.close += one.close;
  const auto numbers = static_cast<double>(chunks * kNormalChunk), expected = numbers * 2 * kMargin;
  EXPECT_EQ(all.different, 0);
  EXPECT_LE(static_cast<double>(all.close), 2 + 1e-8 * numbers);  // too close to tell: 4 of 10^9
  EXPECT_NEAR(static_cast<double>(all.slow), expected, 6 * std::sqrt(expected) + 2);
  std::printf("%.0f numbers: %lld by the slow path (%.3g expected), %lld different from MPFR's, %lld not compared\n",
              numbers, static_cast<long long>(all.slow), expected, static_cast<long long>(all.different),
              static_cast<long long>(all.close));
}

// Words that lead beyond what 64 bits can name.
TEST(NoiseLaw, HasNoLargestNumber) {
  const Grid grid(1);
  for (const int zeros : {1, 2, 3, 5}) {
    PairBits bits{{}, {}, [](PairBits& more) {
                    for (auto* string : {&more.radius, &more.direction}) string->insert(string->end(), 8, 0x9e3779b9u);
                  }};
    bits.radius.assign(static_cast<size_t>(zeros), 0), bits.direction.assign(static_cast<size_t>(zeros), 0);
    const double u_bits = 32 * zeros + std::log2(0x1p32 / 0x9e3779b9p0),
                 wanted = std::sqrt(2 * std::numbers::ln2 * u_bits);
    EXPECT_NEAR(ideal_sum(grid, 0, false, bits), wanted, 1e-3) << zeros;
    if (zeros >= 3) EXPECT_GT(wanted, 11);
    bits.direction[0] = 0x80000000u;
    EXPECT_NEAR(ideal_sum(grid, 3, false, bits), 3 - wanted, 1e-3) << "the other end";
  }
  EXPECT_TRUE(std::isnan(known_radius<true>(0, 0xffffffff).high)) << "such radii are left to the slow path";
}

// A border of the grid that lies within what the known bits allow is decided by those that follow, by either side. Next
// to u = 1 the radius is small, so that sums can be chosen finely, and its first 64 bits tell it to 2^-43 alone.
TEST(NoiseLaw, ExtendsUntilItIsDecided) {
  const Grid grid(1);
  std::mt19937 random(3);
  int64_t extended = 0;
  for (int round = 0; round < 200; ++round) {
    constexpr size_t kKnown = 2 + 4 * 8;  // words that the reference has
    std::vector<uint32_t> radius(kKnown), direction(kKnown);
    for (auto* string : {&radius, &direction})
      for (auto& word : *string) word = static_cast<uint32_t>(random());
    radius[0] = 0xffffffffu, radius[1] |= 0xfff00000u;
    const auto bits = static_cast<int>(32 * kKnown);
    const auto at = ideal_radius(radius, bits) * ideal_direction(direction, bits).across;
    const double sum = (0.5 - ideal_steps(grid, 0, at).low()) * static_cast<double>(grid.spacing);
    PairBits strings{{radius[0], radius[1]}, {direction[0], direction[1]}, [&](PairBits& more) {
                       ++extended;
                       const auto from = static_cast<std::ptrdiff_t>(more.radius.size());
                       ASSERT_LT(more.radius.size(), kKnown) << "the reference is decided by now";
                       more.radius.insert(more.radius.end(), radius.begin() + from, radius.begin() + from + 8);
                       more.direction.insert(more.direction.end(), direction.begin() + from,
                                             direction.begin() + from + 8);
                     }};
    const auto exactly = ideal_steps(grid, sum, at).nearest();
    ASSERT_TRUE(exactly.has_value());
    EXPECT_EQ(ideal_sum(grid, sum, true, strings), *exactly * static_cast<double>(grid.spacing));
  }
  EXPECT_GT(extended, 150);
}

// The strings of an element: the words that the fast path takes, then libsodium's blocks of another nonce each.
TEST(NoiseLaw, ExtensionsAreBlocksOfTheirOwn) {
  uint32_t key[8];
  for (uint32_t i = 0; i < 8; ++i) key[i] = 0x01020304u * (i + 1);
  std::set<std::vector<uint32_t>> met;
  for (const int64_t element : {int64_t{0}, int64_t{1}, int64_t{129}, int64_t{255}, int64_t{256}, int64_t{1} << 40}) {
    auto bits = pair_bits(key, element);
    const auto chunk = element / kNormalChunk, pair = element % (kNormalChunk / 2);
    uint32_t words[16];
    chacha20_words(key, static_cast<uint64_t>(2 * kLanes * chunk + pair % kLanes), words);
    EXPECT_EQ(bits.radius, (std::vector{words[pair / kLanes], words[pair / kLanes + 8]}));
    chacha20_words(key, static_cast<uint64_t>(2 * kLanes * chunk + kLanes + pair % kLanes), words);
    EXPECT_EQ(bits.direction, (std::vector{words[pair / kLanes], words[pair / kLanes + 8]}));
    for (uint64_t extension = 1; extension <= 3; ++extension) {
      bits.extend(bits);
      std::array<uint32_t, 16> wanted{};
      std::array<uint8_t, 8> nonce{};
      std::memcpy(nonce.data(), &extension, sizeof extension);
      auto* const bytes = reinterpret_cast<uint8_t*>(wanted.data());
      crypto_stream_chacha20_xor_ic(bytes, bytes, sizeof wanted, nonce.data(),
                                    static_cast<uint64_t>(chunk * (kNormalChunk / 2) + pair),
                                    reinterpret_cast<const uint8_t*>(key));
      ASSERT_EQ(bits.radius.size(), 2 + 8 * extension);
      EXPECT_TRUE(std::equal(wanted.begin(), wanted.begin() + 8, bits.radius.end() - 8)) << element;
      EXPECT_TRUE(std::equal(wanted.begin() + 8, wanted.end(), bits.direction.end() - 8)) << element;
      met.insert({wanted.begin(), wanted.end()});
    }
  }
  EXPECT_EQ(met.size(), 5 * 3) << "elements 1 and 129 are a pair";
}

TEST(NoiseLaw, WhatIsNotFiniteStaysSo) {
  const uint32_t key[8] = {};
  for (const double sum : {double{INFINITY}, -double{INFINITY}, double{NAN}})
    EXPECT_FALSE(std::isfinite(ideal_sum(Grid(1), sum, key, 5)));
  // Beyond the range of the fast path: the nearest integer, as far as fp64 has it.
  for (const double sum : {0x1.8p40 + 0x1p-11, -0x1.23456789abcdep60, 1e200}) {
    const auto found = ideal_sum(Grid(1), sum, key, 5);
    EXPECT_NEAR(found, sum, 10 + 1e-15 * std::abs(sum));
    EXPECT_EQ(std::fmod(found, 0x1p-10), 0);
  }
}

// The constants of the code are those that were proven.
TEST(NoiseProof, CoversTheMargin) {
  const auto certificate = Json::parse(
      read_text(std::filesystem::path(std::getenv("SHADE_SOURCE")) / "tools/proof/certificate.json", MiB(1)));
  const auto number = [&](const char* key) {
    return std::strtod(certificate.at(key).get<std::string>().c_str(), nullptr);
  };
  EXPECT_TRUE(certificate.at("open").empty());
  EXPECT_GT(number("B2_spacings"), 0);
  EXPECT_LT(number("B2_spacings"), kMargin);
  EXPECT_GE(certificate.at("largest_total_spacings").get<double>(), kLargestTotal);
  EXPECT_LE(certificate.at("smallest_n").get<double>(), 0x1p32) << "below, the radius is not a number";
}

TEST(ExactArithmetic, IsRequired) {
  EXPECT_TRUE(has_known_bits(bits_of_kernels(Variant::portable)));
  EXPECT_FALSE(has_known_bits(bits_of_kernels(Variant::portable) + 1));
  for (const auto variant : variants()) EXPECT_EQ(bits_of_kernels(variant), bits_of_kernels(Variant::portable));
  EXPECT_NO_THROW(require_exact_arithmetic());
  for (const int round : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(round);
    EXPECT_THROW(require_exact_arithmetic(), Error);
    std::fesetround(FE_TONEAREST);
  }
  if (at::globalContext().setFlushDenormal(true)) {
    EXPECT_THROW(require_exact_arithmetic(), Error);
    at::globalContext().setFlushDenormal(false);
  }
  EXPECT_NO_THROW(require_exact_arithmetic());
}

}  // namespace
}  // namespace shade::privacy
