// The sampler is the one accounted for: 1e5 steps with a fixed key, so a p-value is the same in every run.
#include "shade/data/sampler.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tests/support/fault.h"

namespace shade::data {
namespace {

constexpr SampleKey kKey{7, 1, 2};
constexpr double kLeastP = 1e-4;
constexpr int64_t kSteps = 100'000;

double p_value(double chi_square, double degrees) {
  return at::special_gammaincc(at::tensor(degrees / 2, at::kDouble), at::tensor(chi_square / 2, at::kDouble))
      .item<double>();
}

double binomial(int64_t n, double q, int64_t k) {
  const auto d = [](int64_t v) { return static_cast<double>(v); };
  return std::exp(std::lgamma(d(n + 1)) - std::lgamma(d(k + 1)) - std::lgamma(d(n - k + 1)) + d(k) * std::log(q) +
                  d(n - k) * std::log1p(-q));
}

class PoissonRate : public testing::TestWithParam<double> {};

// Sizes are binomial; each record's inclusions are; no two records know of each other, and no step of the one before.
TEST_P(PoissonRate, DrawsEveryRecordOnItsOwn) {
  constexpr int64_t kRecords = 24;
  const double q = GetParam();
  const auto sampler = make_poisson(kKey, {.records = kRecords, .rate = q});
  std::vector<double> sizes(kRecords + 1);
  auto drawn = at::zeros({kSteps, kRecords}, at::kDouble);
  auto in = drawn.accessor<double, 2>();
  for (int64_t step = 0; step < kSteps; ++step) {
    const auto records = sampler->draw(step);
    ASSERT_TRUE(std::is_sorted(records.begin(), records.end()));
    ++sizes[records.size()];
    for (const auto record : records) in[step][record] = 1;
  }
  double chi = 0, degrees = -1, rest = kSteps, rest_expected = kSteps;
  for (int64_t k = 0; k <= kRecords; ++k) {
    const double expected = kSteps * binomial(kRecords, q, k);
    if (expected < 10) continue;
    chi += std::pow(sizes[static_cast<size_t>(k)] - expected, 2) / expected;
    rest -= sizes[static_cast<size_t>(k)];
    rest_expected -= expected;
    ++degrees;
  }
  if (rest_expected > 10) chi += std::pow(rest - rest_expected, 2) / rest_expected, ++degrees;
  EXPECT_GT(p_value(chi, degrees), kLeastP) << "sizes";

  const auto inclusion = (drawn.sum(0) - kSteps * q).square().sum().item<double>() / (kSteps * q * (1 - q));
  EXPECT_GT(p_value(inclusion, kRecords), kLeastP) << "inclusion";

  const auto centred = (drawn - q) / std::sqrt(q * (1 - q));
  const auto pairs = at::triu(at::matmul(centred.t(), centred), 1).square().sum().item<double>() / kSteps;
  EXPECT_GT(p_value(pairs, kRecords * (kRecords - 1) / 2), kLeastP) << "pairs of records";

  const auto later = centred.narrow(0, 1, kSteps - 1), earlier = centred.narrow(0, 0, kSteps - 1);
  const auto steps = at::matmul(earlier.t(), later).square().sum().item<double>() / (kSteps - 1);
  EXPECT_GT(p_value(steps, kRecords * kRecords), kLeastP) << "neighbouring steps";
}

INSTANTIATE_TEST_SUITE_P(Rates, PoissonRate, testing::Values(0.02, 0.2, 0.5, 0.9));

TEST(Poisson, IsAFunctionOfKeyAndStep) {
  const auto sampler = make_poisson(kKey, {.records = 1000, .rate = 0.1});
  const auto again = make_poisson(kKey, {.records = 1000, .rate = 0.1});
  const auto other = make_poisson({8}, {.records = 1000, .rate = 0.1});
  EXPECT_EQ(sampler->draw(17), again->draw(17));
  EXPECT_NE(sampler->draw(17), sampler->draw(18));
  EXPECT_NE(sampler->draw(17), other->draw(17));
  EXPECT_EQ(sampler->expected_batch(), 100);
}

TEST(Poisson, EndsOfTheRange) {
  EXPECT_EQ(make_poisson(kKey, {.records = 5, .rate = 1})->draw(3), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(make_poisson(kKey, {.records = 0, .rate = 0.5})->draw(3).empty());
  EXPECT_TRUE(make_poisson(kKey, {.records = 10, .rate = 1e-12})->draw(0).empty()) << "empty batches are batches";
  EXPECT_EQ(test::fault([] { make_poisson(kKey, {.records = 10, .rate = 1.5}); }),
            "poisson sampling of 10 records at rate 1.5, at most 0; expected a rate above 0 and at most 1, and nothing "
            "negative");
}

// A trillion records: a draw costs what it returns. The mean gap shows that small rates keep their digits.
TEST(Poisson, CostsWhatItReturns) {
  constexpr int64_t kMany = 1'000'000'000'000;
  const auto sampler = make_poisson(kKey, {.records = kMany, .rate = 1e-7});
  const auto drawn = sampler->draw(0);
  EXPECT_NEAR(static_cast<double>(drawn.size()), 1e5, 5 * std::sqrt(1e5));
  EXPECT_LT(drawn.back(), kMany);
  const double low =
      static_cast<double>(std::count_if(drawn.begin(), drawn.end(), [](auto r) { return r < kMany / 2; }));
  EXPECT_NEAR(low, 5e4, 5 * std::sqrt(5e4));
}

// P(gap >= k) = (1 - q)^k: the smallest and the largest gaps too.
TEST(Poisson, GapsAreGeometric) {
  constexpr double q = 1e-3;
  const auto drawn = make_poisson(kKey, {.records = 1'000'000'000, .rate = q})->draw(1);
  std::map<int64_t, double> buckets;  // 20 of about the same mass
  int64_t last = -1;
  for (const auto record : drawn) {
    const double mass = -std::expm1(static_cast<double>(record - last - 1) * std::log1p(-q));
    ++buckets[static_cast<int64_t>(20 * mass)];
    last = record;
  }
  double chi = 0;
  for (int64_t b = 0; b < 20; ++b) {
    const auto first = [&](int64_t k) {  // the first gap of bucket k
      return k == 20 ? 1e18 : std::ceil(std::log1p(-static_cast<double>(k) / 20) / std::log1p(-q) - 1e-9);
    };
    const double expected = static_cast<double>(drawn.size()) *
                            (std::exp(first(b) * std::log1p(-q)) - std::exp(first(b + 1) * std::log1p(-q)));
    chi += std::pow(buckets[b] - expected, 2) / expected;
  }
  EXPECT_GT(p_value(chi, 19), kLeastP);
}

TEST(TruncatedPoisson, CutsToAUniformPart) {
  constexpr int64_t kRecords = 20, kMost = 8;
  const auto whole = make_poisson(kKey, {.records = kRecords, .rate = 0.5});
  const auto cut = make_poisson(kKey, {.records = kRecords, .rate = 0.5, .max_batch = kMost});
  std::vector<double> kept(kRecords), lost(kRecords);
  int64_t cuts = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    const auto all = whole->draw(step), some = cut->draw(step);
    ASSERT_EQ(some.size(), std::min<size_t>(all.size(), kMost));
    ASSERT_TRUE(std::includes(all.begin(), all.end(), some.begin(), some.end())) << "step " << step;
    if (all.size() <= kMost) continue;
    ++cuts;
    for (const auto record : all)
      (std::binary_search(some.begin(), some.end(), record) ? kept : lost)[static_cast<size_t>(record)] += 1;
  }
  EXPECT_GT(cuts, kSteps / 2);
  double all_kept = 0, all_lost = 0, chi = 0;
  for (size_t r = 0; r < kRecords; ++r) all_kept += kept[r], all_lost += lost[r];
  const double share = all_kept / (all_kept + all_lost);
  for (size_t r = 0; r < kRecords; ++r) {
    const double drawn = kept[r] + lost[r];
    chi += std::pow(kept[r] - share * drawn, 2) / (drawn * share * (1 - share));
  }
  EXPECT_GT(p_value(chi, kRecords - 1), kLeastP);
}

TEST(Shuffled, EveryEpochHasEveryRecordOnceInAnotherOrder) {
  for (const int64_t records : {1, 2, 3, 7, 64, 65, 1000}) {
    const auto sampler = make_shuffled(kKey, {.records = records, .batch = 3});
    const int64_t steps = (records + 2) / 3;
    std::vector<std::vector<int64_t>> epochs(3);
    for (int64_t step = 0; step < 3 * steps; ++step) {
      const auto drawn = sampler->draw(step);
      const bool last = step % steps == steps - 1;
      EXPECT_EQ(std::ssize(drawn), last ? records - 3 * (steps - 1) : 3) << "the rest of an epoch is a smaller batch";
      for (const auto record : drawn) epochs[static_cast<size_t>(step / steps)].push_back(record);
    }
    for (const auto& epoch : epochs) {
      EXPECT_EQ(std::ssize(epoch), records);
      EXPECT_EQ(std::set<int64_t>(epoch.begin(), epoch.end()).size(), static_cast<size_t>(records));
    }
    EXPECT_EQ(sampler->draw(2), make_shuffled(kKey, {.records = records, .batch = 3})->draw(2));
    if (records >= 64) {
      EXPECT_NE(epochs[0], epochs[1]);
    }
  }
}

// Where a record comes in the order says nothing about the record.
TEST(Shuffled, PlacesAreUniform) {
  constexpr int64_t kRecords = 11, kEpochs = 20'000;
  const auto sampler = make_shuffled(kKey, {.records = kRecords, .batch = kRecords});
  auto seen = at::zeros({kRecords, kRecords}, at::kDouble);
  auto count = seen.accessor<double, 2>();
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const auto order = sampler->draw(epoch);
    for (int64_t place = 0; place < kRecords; ++place) count[order[static_cast<size_t>(place)]][place] += 1;
  }
  const double expected = static_cast<double>(kEpochs) / kRecords;
  const auto chi = ((seen - expected).square() / expected).sum().item<double>();
  EXPECT_GT(p_value(chi, (kRecords - 1) * (kRecords - 1)), kLeastP);
}

}  // namespace
}  // namespace shade::data
