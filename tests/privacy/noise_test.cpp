// The noise: its law, its repeatability, and that nothing of it is used twice.
#include "shade/privacy/noise.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sodium.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <unordered_set>

#include "shade/base/error.h"
#include "shade/privacy/noise_lane.h"

namespace shade::privacy {
namespace {

constexpr int64_t kMany = 1'000'000;

at::Tensor drawn(const Noise& noise, int64_t size, uint64_t step = 0, int64_t weight = 0, int64_t begin = 0) {
  auto out = at::zeros({size}, at::kDouble);
  noise.add(out, 1, step, weight, begin);
  return out;
}

Noise seeded(uint64_t seed) { return Noise(seeded_key(seed)); }

// The probability that a sample of the normal law is at least as far from it (Kolmogorov and Smirnov).
double ks_p(const at::Tensor& sample) {
  const auto sorted = std::get<0>(sample.to(at::kDouble).sort());
  const auto* x = sorted.data_ptr<double>();
  const auto n = static_cast<double>(sorted.numel());
  double distance = 0;
  for (int64_t i = 0; i < sorted.numel(); ++i) {
    const double law = 0.5 * std::erfc(-x[i] / std::numbers::sqrt2);
    distance = std::max({distance, static_cast<double>(i + 1) / n - law, law - static_cast<double>(i) / n});
  }
  const double lambda = (std::sqrt(n) + 0.12 + 0.11 / std::sqrt(n)) * distance;
  double p = 0;
  for (int k = 1; k <= 100; ++k) p += (k % 2 == 1 ? 2 : -2) * std::exp(-2 * k * k * lambda * lambda);
  return lambda < 0.2 ? 1 : p;
}

TEST(Noise, IsNormal) {
  const auto z = drawn(seeded(1), kMany, 3, 2, 5);
  EXPECT_NEAR(z.mean().item<double>(), 0, 4e-3);
  EXPECT_NEAR(z.var().item<double>(), 1, 0.01);
  EXPECT_NEAR(z.pow(4).mean().item<double>(), 3, 0.05);
  EXPECT_GT(ks_p(z), 1e-4);
  EXPECT_GT(z.abs().max().item<double>(), 4.2);
  // On the grid of 2^-10 some numbers are 0: 390 of a million, give or take 20.
  EXPECT_NEAR((z == 0).sum().item<double>(), kMany * 0x1p-10 / std::sqrt(2 * std::numbers::pi), 100)
      << "elements without noise";
}

TEST(Noise, TheTestOfTheLawCanFail) {
  const auto z = drawn(seeded(1), kMany);
  EXPECT_LT(ks_p(z * 1.01), 1e-4);
  EXPECT_LT(ks_p(z + 0.01), 1e-4);
  EXPECT_LT(ks_p(at::rand({kMany}) * 3.4641 - 1.7321), 1e-4);
}

// Noise is added to what is there, scaled by the deviation, and a deviation of 0 adds nothing.
TEST(Noise, IsAddedToTheGradient) {
  const auto noise = seeded(1);
  const auto z = drawn(noise, 1000, 1, 1);
  auto sum = at::full({1000}, 3.5, at::kDouble);
  noise.add(sum, 2.5, 1, 1, 0);
  EXPECT_LE((sum - (3.5 + 2.5 * z)).abs().max().item<double>(), 2.5 * 0x1p-11 + 0x1p-10) << "half a spacing each";
  EXPECT_TRUE((sum * 512).equal((sum * 512).round())) << "multiples of 2^-9, the grid of 2.5";
  noise.add(sum.fill_(1e-9), 0, 1, 1, 0);
  EXPECT_TRUE(sum.equal(at::full({1000}, 1e-9, at::kDouble))) << "a deviation of 0 rounds nothing";
  EXPECT_NO_THROW(noise.add(at::empty({8}, at::device(at::kMeta).dtype(at::kDouble)), 1, 0, 0, 0))
      << "a step of shapes alone";
  for (const auto type : {at::kBFloat16, at::kFloat}) {
    auto narrow = at::zeros({8}, type);
    EXPECT_THROW(noise.add(narrow, 1, 0, 0, 0), Error);
  }
}

TEST(Noise, AnyPartitionIsBitEqual) {
  constexpr int64_t kSize = 20'011;  // several chunks and a broken block
  const auto noise = seeded(2);
  const auto whole = drawn(noise, kSize, 5, 3);
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<int64_t> cuts{0, kSize};
    for (int i = 0; i < trial % 9; ++i) cuts.push_back(static_cast<int64_t>(random() % kSize));
    if (trial == 0) cuts.insert(cuts.end(), {1, 2, 15, 16, 17, 4095, 4096, 4097});
    std::sort(cuts.begin(), cuts.end());
    auto parts = at::zeros({kSize}, at::kDouble);
    for (size_t i = cuts.size() - 1; i-- > 0;)  // in another order
      noise.add(parts.narrow(0, cuts[i], cuts[i + 1] - cuts[i]), 1, 5, 3, cuts[i]);
    ASSERT_TRUE(parts.equal(whole)) << "trial " << trial;
  }
}

TEST(Noise, AnotherStepWeightOrKeyIsOtherNoise) {
  const std::vector<at::Tensor> all{drawn(seeded(1), kMany),
                                    drawn(seeded(1), kMany, 1),
                                    drawn(seeded(1), kMany, 0, 1),
                                    drawn(seeded(1), kMany, 1, 1),
                                    drawn(Noise(derived_key(seeded_key(1), "other")), kMany),
                                    drawn(seeded(2), kMany),
                                    drawn(seeded(1), kMany, 0, 0, 16),
                                    drawn(Noise(secret_key()), kMany),
                                    drawn(Noise(secret_key()), kMany)};
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      EXPECT_LT((all[i] == all[j]).sum().item<int64_t>(), 400) << i << " and " << j;  // 275 by chance, on a grid
      EXPECT_LT(std::abs((all[i] * all[j]).mean().item<double>()), 5e-3) << i << " and " << j << " are correlated";
    }
  // Neighbours, and the two halves of a Box-Muller pair.
  for (const int64_t lag : {1, 16, 128, 256})
    EXPECT_LT(std::abs((all[0].narrow(0, lag, kMany - lag) * all[0].narrow(0, 0, kMany - lag)).mean().item<double>()),
              5e-3)
        << "lag " << lag;
  // Words that serve as the direction of one pair and the radius of another tie a number's sign to the other's size.
  for (const int64_t lag : {128, 256, 384, 512}) {
    const auto first = all[0].narrow(0, 0, kMany - lag), second = all[0].narrow(0, lag, kMany - lag);
    EXPECT_LT(std::abs((first * second.square()).mean().item<double>()), 0.01) << "lag " << lag;
    EXPECT_LT(std::abs((first.square() * second).mean().item<double>()), 0.01) << "lag " << lag;
  }
}

// The sampler hashes 16 bytes without a personalisation (data/keyed_bits.cpp): of one key, step 1 of weight w would be
// its draw for step w.
TEST(Noise, SharesNoSubkeyWithTheSampler) {
  const auto key = seeded_key(3);
  for (const uint64_t step : {0U, 1U, 2U, 3U}) {
    const int64_t weight = 5;
    const std::array<uint64_t, 2> message{step, static_cast<uint64_t>(weight)};
    const auto task = Noise(key).task(1, step, weight, 0, 1);
    const auto subkey = std::as_bytes(std::span(task.key));
    std::array<std::byte, 32> of_sampler;
    crypto_generichash(reinterpret_cast<uint8_t*>(of_sampler.data()), of_sampler.size(),
                       reinterpret_cast<const uint8_t*>(message.data()), sizeof message, key.data(), key.size());
    EXPECT_FALSE(std::equal(subkey.begin(), subkey.end(), of_sampler.begin())) << step;
    const auto wanted = derived_key(key, "shade noise", std::as_bytes(std::span(message)));
    EXPECT_TRUE(std::equal(subkey.begin(), subkey.end(), std::as_bytes(std::span(wanted.bytes())).begin())) << step;
  }
}

TEST(Noise, RepeatsForTheSameKey) {
  EXPECT_TRUE(drawn(seeded(9), 1000, 4, 7).equal(drawn(seeded(9), 1000, 4, 7)));
  EXPECT_EQ(seeded(9).added(3, 0.5, 4, -1), seeded(9).added(3, 0.5, 4, -1));
}

// Runs of sixteen numbers: none may be met under two names.
TEST(Noise, NoBlockIsUsedTwice) {
  std::unordered_set<std::string> met;
  size_t blocks = 0;
  for (const uint64_t key : {1U, 2U, 256U})
    for (const uint64_t step : {0U, 1U, 2U, 3U, 255U, 256U, 65536U})
      for (const int64_t weight : {0, 1, 2, 3, 255, 256, 65536}) {
        const auto z = drawn(seeded(key), 16 * 600, step, weight);
        for (int64_t block = 0; block < 600; ++block, ++blocks)
          met.emplace(reinterpret_cast<const char*>(z.data_ptr<double>() + 16 * block), 128);
      }
  EXPECT_EQ(met.size(), blocks);
}

TEST(Noise, NumbersForNoWeightAreStreamsOfTheirOwn) {
  const auto noise = seeded(1);
  constexpr int64_t kMost = 20'000;
  auto draws = at::empty({kMost}, at::kDouble);
  for (int64_t i = 0; i < draws.numel(); ++i) draws[i] = noise.added(0, 1, static_cast<uint64_t>(i / 2), -1 - i % 2);
  EXPECT_GT(ks_p(draws), 1e-4);
  EXPECT_NEAR((draws.slice(0, 0, kMost, 2) * draws.slice(0, 1, kMost, 2)).mean().item<double>(), 0, 0.04);
  EXPECT_TRUE((draws * 1024).equal((draws * 1024).round())) << "on the grid";
  EXPECT_EQ(noise.added(2.5, 0, 0, -1), 2.5) << "a deviation of 0 rounds nothing";
  EXPECT_THROW(noise.added(0, 1, 0, 0), Error) << "that is a weight's";
}

}  // namespace
}  // namespace shade::privacy
