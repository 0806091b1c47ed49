// The Renyi filter: what it allows, what it costs, and that choosing runs by results doesn't get around it.
#include "shade/accounting/filter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "shade/accounting/accountant.h"
#include "shade/accounting/gaussian_pair.h"
#include "shade/accounting/rdp.h"
#include "tests/support/fault.h"

namespace shade::privacy {
namespace {

constexpr Cap kCap{.epsilon = 4, .delta = 1e-6};
const Mechanism kSampled{.sample_rate = 0.01, .noise_multiplier = 1};

int64_t steps_within(Accountant accountant, const Mechanism& mechanism, const Cap& cap) {
  int64_t kept = 0, over = 1'000'000;
  while (over - kept > 1) {
    const Steps middle{mechanism, kept + (over - kept) / 2};
    (spent(accountant, {&middle, 1}, cap.delta).epsilon <= cap.epsilon ? kept : over) = middle.count;
  }
  return kept;
}

TEST(Filter, SharesOfDeltaAddUpToOne) {
  const auto orders = filter_orders(kCap, kSampled);
  EXPECT_NEAR(
      std::accumulate(orders.begin(), orders.end(), 0.0, [](double sum, const auto& o) { return sum + o.share; }), 1,
      1e-12);
  for (const auto& [order, share] : orders) EXPECT_GT(order, 1);
  EXPECT_EQ(filter_orders(kCap, kSampled), orders) << "they follow from the cap and the first run";
}

// Each order may use up its own share of delta: then all of them together use up delta, and not more.
TEST(Filter, AnOrderStopsWhereItsShareOfDeltaConvertsToTheCap) {
  const auto orders = filter_orders(kCap, kSampled);
  int64_t most = 0;
  for (const auto& [order, share] : orders) {
    const double each = renyi(kSampled, order);
    const auto epsilon = [&](int64_t steps) {
      const std::array<double, 1> at{order}, sum{static_cast<double>(steps) * each};
      return rdp_to_epsilon(at, sum, share * kCap.delta).epsilon;
    };
    int64_t kept = 0;
    while (epsilon(kept + 1) <= kCap.epsilon && kept < 100'000) ++kept;
    most = std::max(most, kept);
    const RenyiFilter alone(kCap, {{order, share}});
    EXPECT_EQ(alone.allowed(kSampled, 100'000), kept) << "order " << order;
  }
  EXPECT_EQ(RenyiFilter(kCap, orders).allowed(kSampled, 100'000), most);
}

TEST(Filter, AllowsNearlyWhatRdpAllowsAndNeverMore) {
  for (const auto& mechanism : {kSampled, Mechanism{.sample_rate = 1, .noise_multiplier = 100},
                                Mechanism{.sample_rate = 0.001, .noise_multiplier = 0.6}})
    for (const Cap& cap : {Cap{1, 1e-5}, Cap{8, 1e-8}}) {
      const RenyiFilter filter(cap, filter_orders(cap, mechanism));
      const auto allowed = filter.allowed(mechanism, 1'000'000),
                 planned = steps_within(Accountant::rdp, mechanism, cap);
      EXPECT_LE(allowed, planned) << cap.epsilon;
      EXPECT_GE(static_cast<double>(allowed), 0.95 * static_cast<double>(planned) - 5) << cap.epsilon << " " << planned;
    }
}

TEST(Filter, WhatWasTakenIsGone) {
  RenyiFilter filter(kCap, filter_orders(kCap, kSampled));
  const auto all = filter.allowed(kSampled, 1'000'000);
  EXPECT_EQ(filter.allowed(kSampled, 10), 10) << "no more than wanted";
  filter.take({kSampled, all / 2});
  EXPECT_NEAR(static_cast<double>(filter.allowed(kSampled, 1'000'000)), static_cast<double>(all - all / 2), 1);
  filter.take({kSampled, all - all / 2});
  EXPECT_EQ(filter.allowed(kSampled, 1'000'000), 0);
  EXPECT_LE(filter.position(), kCap.epsilon);
  EXPECT_GT(filter.position(), 0.99 * kCap.epsilon);
  filter.take({kSampled, 10});
  EXPECT_GT(filter.position(), kCap.epsilon) << "spent without room";
  EXPECT_EQ(RenyiFilter(kCap, filter_orders(kCap, kSampled)).position(), 0);
}

// An adversary who sees the privacy loss of a first run of Gaussian steps and then chooses between going on with many
// small steps or with few large ones, whichever the order that still has room for it allows. The exact delta is that of
// the two branches, integrated over the loss of the first run.
TEST(Filter, ChoosingTheSecondRunByTheFirstKeepsTheCap) {
  const Mechanism first{.sample_rate = 1, .noise_multiplier = 12};
  const Mechanism seconds[] = {{.sample_rate = 1, .noise_multiplier = 40}, {.sample_rate = 1, .noise_multiplier = 2}};
  const Cap cap{.epsilon = 3, .delta = 1e-4};
  RenyiFilter filter(cap, filter_orders(cap, first));
  const auto taken = filter.allowed(first, 1'000'000) / 2;
  filter.take({first, taken});
  double mu_second[2];
  for (int i = 0; i < 2; ++i)
    mu_second[i] = std::sqrt(static_cast<double>(filter.allowed(seconds[i], 1'000'000))) / seconds[i].noise_multiplier;
  EXPECT_GT(std::max(mu_second[0], mu_second[1]), 0.1) << "nothing was left to choose";
  const double mu = std::sqrt(static_cast<double>(taken)) / first.noise_multiplier;
  // Of N(mu, 1) against N(0, 1) the loss at x is mu x - mu^2 / 2. For each x the worse of the two, which is more than
  // any adversary can have.
  double delta = 0;
  const double dx = 1e-3;
  for (double x = mu - 10; x < mu + 10; x += dx) {
    const double density = std::exp(-0.5 * (x - mu) * (x - mu)) / std::sqrt(2 * M_PI), loss = mu * x - mu * mu / 2;
    double worst = 0;
    for (const double next : mu_second) {
      const double left = cap.epsilon - loss;  // delta of a Gaussian at an epsilon of any sign
      const double gained = 0.5 * std::erfc((left / next - next / 2) / std::sqrt(2));
      const double paid = std::exp(left) * 0.5 * std::erfc((left / next + next / 2) / std::sqrt(2));
      worst = std::max(worst, next > 0 ? gained - paid : -std::expm1(left));
    }
    delta += density * worst * dx;
  }
  EXPECT_LE(delta, cap.delta);
  EXPECT_GT(delta, 1e-3 * cap.delta) << "the cap is far from being reached: nothing is shown";
}

TEST(Filter, RefusesWhatIsNoCap) {
  EXPECT_EQ(test::fault([] { (void)filter_orders({0, 1e-5}, kSampled); }), "epsilon 0 is no cap; expected above 0");
  EXPECT_NE(test::fault([] { (void)filter_orders({1, 0}, kSampled); }), "no error");
  EXPECT_NE(test::fault([] {
              (void)filter_orders(kCap, {.sampler = Sampler::shuffled, .sample_rate = 0.1, .noise_multiplier = 1});
            }),
            "no error");
  EXPECT_EQ(test::fault([] { RenyiFilter(kCap, {{2, 0.6}, {3, 0.6}}); }),
            "the shares of 2 orders sum to 1.2; expected at most 1");
  EXPECT_NE(test::fault([] { RenyiFilter(kCap, {}); }), "no error");
  EXPECT_NE(test::fault([] { RenyiFilter(kCap, {{1, 0.5}}); }), "no error");
}

TEST(Filter, ACapThatNoStepFitsAllowsNone) {
  const Cap tiny{.epsilon = 1e-3, .delta = 1e-12};
  const Mechanism loud{.sample_rate = 1, .noise_multiplier = 0.5};
  EXPECT_EQ(RenyiFilter(tiny, filter_orders(tiny, loud)).allowed(loud, 5), 0);
}

}  // namespace
}  // namespace shade::privacy
