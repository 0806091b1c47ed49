// Batches that are cut at a largest size cost more than Poisson's, and how much.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "shade/accounting/branch.h"
#include "shade/accounting/prv.h"
#include "shade/accounting/rdp.h"

namespace shade::privacy {
namespace {

Steps cut_at(int64_t max_batch, int64_t population = 50'000, double sigma = 1.1) {
  return {{.sampler = Sampler::truncated_poisson,
           .sample_rate = 0.01,
           .noise_multiplier = sigma,
           .max_batch = max_batch,
           .population = population},
          1000};
}
constexpr Steps kPoisson{{.sample_rate = 0.01, .noise_multiplier = 1.1}, 1000};
constexpr Steps kDoubled{{.sample_rate = 0.01, .noise_multiplier = 0.55}, 1000};  // as if every batch were cut

TEST(TruncatedPoisson, BinomialTailIsRightOrAbove) {
  for (const auto& [n, q, least] : {std::tuple{int64_t{10}, 0.3, int64_t{6}}, std::tuple{int64_t{60}, 0.1, int64_t{12}},
                                    std::tuple{int64_t{25}, 0.5, int64_t{20}}}) {
    double exact = 0;
    for (int64_t k = least; k <= n; ++k) {
      double term = 1;
      for (int64_t i = 0; i < k; ++i) term *= static_cast<double>(n - i) / static_cast<double>(i + 1) * q;
      exact += term * std::pow(1 - q, static_cast<double>(n - k));
    }
    EXPECT_GE(binomial_tail(n, q, least), exact);
    EXPECT_LE(binomial_tail(n, q, least), exact * (1 + 1e-9));
  }
  EXPECT_EQ(binomial_tail(10, 0.3, 11), 0);
  EXPECT_EQ(binomial_tail(10, 0.3, 0), 1);
  EXPECT_EQ(binomial_tail(1'000'000'000, 1e-3, 900'000), 1) << "below the mean it is rounded up";
}

TEST(TruncatedPoisson, CostsMoreThanPoissonAndAtMostDoubledSensitivity) {
  const double least = prv_epsilon({&kPoisson, 1}, 1e-6), most = prv_epsilon({&kDoubled, 1}, 1e-6);
  const double least_rdp = rdp_epsilon({&kPoisson, 1}, 1e-6).epsilon,
               most_rdp = rdp_epsilon({&kDoubled, 1}, 1e-6).epsilon;
  double last = most, last_rdp = most_rdp;
  for (const int64_t max_batch : {100, 520, 560, 600, 700, 800, 2000}) {  // 500 are expected, 22 is a deviation
    const auto run = cut_at(max_batch);
    const double found = prv_epsilon({&run, 1}, 1e-6), rdp = rdp_epsilon({&run, 1}, 1e-6).epsilon;
    EXPECT_LE(found, last * (1 + 1e-4)) << max_batch;
    EXPECT_GE(found, least * (1 - 1e-4)) << max_batch;
    EXPECT_LE(rdp, last_rdp * (1 + 1e-12)) << max_batch;
    EXPECT_GE(rdp, least_rdp * (1 - 1e-12)) << max_batch;
    EXPECT_LE(found, rdp) << max_batch;
    last = found, last_rdp = rdp;
  }
  EXPECT_NEAR(last / least, 1, 1e-4) << "a batch of 2000 is never drawn";
  const auto always = cut_at(100);
  EXPECT_NEAR(prv_epsilon({&always, 1}, 1e-6) / most, 1, 1e-9) << "a batch of 100 is always cut";
  const auto sometimes = cut_at(560);
  EXPECT_GT(prv_epsilon({&sometimes, 1}, 1e-6), least * 1.01) << "a cut in 270 is not free";
}

TEST(TruncatedPoisson, MoreRecordsAreCutMoreOften) {
  double last = 0;
  for (const int64_t population : {30'000, 50'000, 52'000, 55'000}) {
    const auto run = cut_at(600, population);
    const double found = prv_epsilon({&run, 1}, 1e-6);
    EXPECT_GE(found, last * (1 - 1e-4)) << population;
    last = found;
  }
}

// Chua et al. (2024): delta of Poisson plus T (1 + e^epsilon) P(cut). Ours keeps the privacy that a cut step still has.
TEST(TruncatedPoisson, IsBelowTheBoundThatGivesUpACutStep) {
  for (const int64_t max_batch : {600, 650}) {
    const auto run = cut_at(max_batch);
    for (const double epsilon : {1.0, 3.0}) {
      const double given_up = 1000 * (1 + std::exp(epsilon)) * binomial_tail(50'000, 0.01, max_batch);
      EXPECT_LE(prv_delta({&run, 1}, epsilon), (prv_delta({&kPoisson, 1}, epsilon) + given_up) * 1.001)
          << max_batch << " " << epsilon;
    }
  }
}

// The derivation itself, on a step small enough to enumerate: n others at +1 or -1, the record at 1, B kept uniformly.
// The true delta of every such data set lies below the bound, in both directions.
TEST(TruncatedPoisson, BoundsEveryDataSetOfASmallStepByEnumeration) {
  const double q = 0.3, sigma = 1;
  const int others = 4, batch = 2;
  // The distribution of the kept sum: probability by value, offset by `others + 1`.
  const auto kept_sums = [&](const std::vector<int>& records) {
    std::array<double, 2 * 6 + 1> out{};
    const int n = static_cast<int>(records.size());
    for (unsigned drawn = 0; drawn < 1U << n; ++drawn) {
      const double p = std::pow(q, __builtin_popcount(drawn)) * std::pow(1 - q, n - __builtin_popcount(drawn));
      const int keep = std::min(batch, __builtin_popcount(drawn));
      std::vector<int> sums;
      for (unsigned kept = drawn;; kept = (kept - 1) & drawn) {
        if (__builtin_popcount(kept) == keep) {
          int sum = 0;
          for (int i = 0; i < n; ++i) sum += kept >> i & 1 ? records[static_cast<size_t>(i)] : 0;
          sums.push_back(sum);
        }
        if (kept == 0) break;
      }
      for (const int sum : sums) out[static_cast<size_t>(sum + 6)] += p / static_cast<double>(sums.size());
    }
    return out;
  };
  const auto hockey_stick = [&](const auto& p, const auto& r, double epsilon) {
    double delta = 0;
    for (double x = -12; x < 12; x += 0.02) {
      double difference = 0;
      for (int value = -6; value <= 6; ++value) {
        const auto i = static_cast<size_t>(value + 6);
        difference += (p[i] - std::exp(epsilon) * r[i]) * std::exp(-(x - value) * (x - value) / (2 * sigma * sigma));
      }
      delta += std::max(0.0, difference) * 0.02 / sigma / std::sqrt(2 * M_PI);
    }
    return delta;
  };
  const Steps run{{.sampler = Sampler::truncated_poisson,
                   .sample_rate = q,
                   .noise_multiplier = sigma,
                   .max_batch = batch,
                   .population = others},
                  1};
  const auto remove = run_pairs({&run, 1}, Direction::remove), add = run_pairs({&run, 1}, Direction::add);
  double nearest = 0;
  for (const double epsilon : {0.1, 1.0, 3.0, 5.0}) {
    const double removed_bound = prv_delta(remove, epsilon), added_bound = prv_delta(add, epsilon);
    for (int positive = 0; positive <= others; ++positive) {
      std::vector<int> records(others, -1);
      std::fill_n(records.begin(), positive, 1);
      const auto without = kept_sums(records);
      records.push_back(1);
      const auto with = kept_sums(records);
      const double removed = hockey_stick(with, without, epsilon), added = hockey_stick(without, with, epsilon);
      EXPECT_LE(removed, removed_bound) << positive << " " << epsilon;
      EXPECT_LE(added, added_bound) << positive << " " << epsilon;
      nearest = std::max(nearest, removed / removed_bound);
    }
  }
  EXPECT_GT(nearest, 0.5) << "the bound says something";
}

}  // namespace
}  // namespace shade::privacy
