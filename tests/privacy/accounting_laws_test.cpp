// Laws that hold for any run, on runs drawn at random: sigma 0.3 to 50, rate 1e-6 to 1, steps 1 to 1e9.
// SHADE_FULL_MATRIX, with RC_PARAMS: 2,000 runs in place of 100, and 400 in place of 4 by prv.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <random>

#include "shade/accounting/accountant.h"
#include "shade/accounting/calibrate.h"
#include "shade/accounting/gaussian_pair.h"
#include "shade/accounting/prv.h"
#include "shade/accounting/rdp.h"
#include "tests/support/fault.h"

namespace shade::privacy {
namespace {

double between(double low, double high) {  // evenly in the logarithm
  return low * std::pow(high / low, *rc::gen::inRange(0, 1'000'001) / 1e6);
}

struct Drawn {
  Steps steps;
  double delta;
};

Drawn drawn(double most_steps = 1e9) {
  return {{{.sample_rate = std::min(1.0, between(1e-6, 1.2)), .noise_multiplier = between(0.3, 50)},
           static_cast<int64_t>(between(1, most_steps))},
          between(1e-12, 1e-2)};
}

double epsilon(Accountant accountant, const Steps& steps, double delta) {
  return spent(accountant, {&steps, 1}, delta).epsilon;
}

// Empty: it falls with noise and delta and grows with rate and steps. Otherwise what doesn't hold.
std::string not_monotone(Accountant accountant, const Drawn& run, double slack) {
  const auto& [steps, delta] = run;
  const double here = epsilon(accountant, steps, delta), below = here * (1 + slack) + 1e-7;
  if (!(std::isfinite(here) && here >= 0)) return "finite";
  auto other = steps;
  other.mechanism.noise_multiplier *= 1.1;
  if (epsilon(accountant, other, delta) > below) return "noise";
  other = steps;
  other.mechanism.sample_rate *= 0.9;
  if (epsilon(accountant, other, delta) > below) return "rate";
  other = steps;
  other.count = std::max<int64_t>(1, steps.count / 10 * 9);
  if (epsilon(accountant, other, delta) > below) return "steps";
  if (epsilon(accountant, steps, std::min(0.5, delta * 2)) > below) return "delta";
  return {};
}

TEST(Laws, RdpFallsWithNoiseAndDeltaAndGrowsWithRateAndSteps) {
  EXPECT_TRUE(rc::check([] { RC_ASSERT(not_monotone(Accountant::rdp, drawn(), 1e-12) == ""); }));
}
// Its limit is a Gaussian of any width: beyond a mu of 1e5 the tails are beyond the numbers.
TEST(Laws, GdpFallsWithNoiseAndDeltaAndGrowsWithRateAndSteps) {
  EXPECT_TRUE(rc::check([] { RC_ASSERT(not_monotone(Accountant::gdp, drawn(1e6), 1e-12) == ""); }));
}
TEST(Laws, PrvFallsWithNoiseAndDeltaAndGrowsWithRateAndStepsOnRandomRuns) {
  std::mt19937_64 random(7);
  const auto between = [&](double low, double high) {
    return low * std::pow(high / low, std::uniform_real_distribution<double>(0, 1)(random));
  };
  for (int i = 0; i < (std::getenv("SHADE_FULL_MATRIX") != nullptr ? 400 : 4); ++i) {
    const Drawn run{{{.sample_rate = std::min(1.0, between(1e-6, 1.2)), .noise_multiplier = between(0.3, 50)},
                     static_cast<int64_t>(between(1, 1e9))},
                    between(1e-12, 1e-2)};
    // Two answers on two grids: each may be above the truth by its own part of a percent.
    EXPECT_EQ(not_monotone(Accountant::prv, run, 1e-2), "")
        << "q " << run.steps.mechanism.sample_rate << " sigma " << run.steps.mechanism.noise_multiplier << " x "
        << run.steps.count << " delta " << run.delta;
  }
}

// What one grid can't resolve is answered by the other bound, and says so.
TEST(Laws, ABillionStepsHaveAnAnswer) {
  int by_renyi = 0;
  for (const auto& [q, sigma] : {std::pair{1e-6, 0.5}, {1e-4, 1.0}, {1e-2, 0.3}, {1e-2, 100.0}, {1.0, 1000.0}}) {
    const Steps run{{.sample_rate = q, .noise_multiplier = sigma}, kMaxSteps};
    const auto prv = spent(Accountant::prv, {&run, 1}, 1e-6);
    EXPECT_TRUE(std::isfinite(prv.epsilon)) << q << " " << sigma;
    EXPECT_LE(prv.epsilon, epsilon(Accountant::rdp, run, 1e-6)) << q << " " << sigma;
    EXPECT_EQ(prv.warning.empty(), !prv.order) << "the bound of rdp is named";
    EXPECT_EQ(prv.accountant, prv.order ? Accountant::rdp : Accountant::prv);
    by_renyi += prv.order ? 1 : 0;
  }
  EXPECT_GT(by_renyi, 0) << "no run here needs the other bound: choose others";
  const Steps more{{.sample_rate = 0.1, .noise_multiplier = 1}, kMaxSteps + 1};
  EXPECT_EQ(test::fault([&] { (void)spent(Accountant::prv, {&more, 1}, 1e-6); }),
            "number of steps 1000000001 is out of range; expected 0 to 1000000000");
}
TEST(Laws, PrvFallsWithNoiseAndDeltaAndGrowsWithRateAndSteps) {
  for (const auto& [q, sigma, count] : {std::tuple{0.02, 0.9, int64_t{500}}, std::tuple{0.5, 3.0, int64_t{40}},
                                        std::tuple{0.001, 0.7, int64_t{3000}}, std::tuple{1.0, 5.0, int64_t{7}}}) {
    const Steps steps{{.sample_rate = q, .noise_multiplier = sigma}, count};
    const double here = epsilon(Accountant::prv, steps, 1e-6);
    auto other = steps;
    other.mechanism.noise_multiplier *= 1.01;
    EXPECT_LT(epsilon(Accountant::prv, other, 1e-6), here);
    other = steps;
    other.mechanism.sample_rate *= 0.99;
    EXPECT_LT(epsilon(Accountant::prv, other, 1e-6), here);
    other = steps;
    other.count -= 1;
    EXPECT_LT(epsilon(Accountant::prv, other, 1e-6), here);
    EXPECT_LT(epsilon(Accountant::prv, steps, 1.1e-6), here);
  }
}

// Two bounds on one quantity: prv is (nearly) exact, so rdp may not lie below it; and at no sampling can it cost more.
TEST(Laws, PrvIsFiniteAndAtMostRdpAndAtMostNoSampling) {
  auto extremes = std::vector<Drawn>{};
  for (const double q : {1e-6, 0.5})
    for (const double sigma : {0.3, 50.0})
      for (const int64_t count : {1, 300})
        extremes.push_back({{{.sample_rate = q, .noise_multiplier = sigma}, count}, 1e-6});
  extremes.push_back({{{.sample_rate = 1e-6, .noise_multiplier = 0.3}, 1'000'000}, 1e-6});
  extremes.push_back({{{.sample_rate = 0.5, .noise_multiplier = 0.3}, 1'000'000}, 1e-5});
  for (const auto& [steps, delta] : extremes) {
    const auto name =
        text("q ", steps.mechanism.sample_rate, " sigma ", steps.mechanism.noise_multiplier, " x ", steps.count);
    const double prv = epsilon(Accountant::prv, steps, delta);
    EXPECT_TRUE(std::isfinite(prv) && prv >= 0) << name;
    EXPECT_LE(prv, epsilon(Accountant::rdp, steps, delta) * (1 + 1e-4) + 1e-7) << name;
    const double mu = std::sqrt(static_cast<double>(steps.count)) / steps.mechanism.noise_multiplier;
    EXPECT_LE(prv, gaussian_epsilon(delta, mu) * (1 + 1e-4) + 1e-7) << name;
    const double back = prv_delta({&steps, 1}, prv);
    EXPECT_LE(back, delta * 1.05) << name;
    if (prv > 1e-3) {
      EXPECT_GE(back, delta * 0.9) << name;
    }
  }
}

TEST(Laws, NStepsAndMStepsAreNPlusM) {
  for (const auto accountant : {Accountant::rdp, Accountant::prv, Accountant::gdp}) {
    const Mechanism one{.sample_rate = 0.02, .noise_multiplier = 1.1};
    auto same = one;
    same.noise_multiplier *= 1 + 1e-12;  // another mechanism to the accountant, the same to the eye
    const double split = spent(accountant, std::array{Steps{one, 300}, Steps{same, 700}}, 1e-6).epsilon;
    const double whole = spent(accountant, std::array{Steps{one, 1000}}, 1e-6).epsilon;
    EXPECT_NEAR(split, whole, 1e-8 * whole) << to_string(accountant);
    EXPECT_GT(
        spent(accountant, std::array{Steps{one, 1000}, Steps{{.sample_rate = 0.5, .noise_multiplier = 3}, 1}}, 1e-6)
            .epsilon,
        whole)
        << "every step costs";
    EXPECT_EQ(spent(accountant, std::span<const Steps>{}, 1e-6).epsilon, 0) << to_string(accountant);
  }
}

TEST(Laws, OrderOfDifferentStepsDoesNotMatter) {
  const Steps a{{.sample_rate = 0.02, .noise_multiplier = 1.1}, 300},
      b{{.sample_rate = 0.2, .noise_multiplier = 4}, 50};
  for (const auto accountant : {Accountant::rdp, Accountant::prv, Accountant::gdp})
    EXPECT_NEAR(spent(accountant, std::array{a, b}, 1e-6).epsilon, spent(accountant, std::array{b, a}, 1e-6).epsilon,
                1e-9);
}

TEST(Laws, QuadratureAgreesWithTheSumAtIntegerOrders) {
  EXPECT_TRUE(rc::check([] {
    const double q = between(1e-6, 0.99), sigma = between(0.3, 50);
    const int order = *rc::gen::inRange(2, 64);
    const double sum = log_excess(q, sigma, order), integral = log_excess_by_quadrature(q, sigma, order);
    RC_ASSERT(std::abs(integral - sum) <= 1e-10 * std::max(1.0, std::abs(sum)));
  }));
}

TEST(Laws, RenyiDivergenceGrowsWithTheOrder) {
  EXPECT_TRUE(rc::check([] {
    const auto mechanism = drawn().steps.mechanism;
    const double order = between(1.01, 60);
    RC_ASSERT(renyi(mechanism, order) <= renyi(mechanism, order * 1.01) * (1 + 1e-9));
  }));
}

TEST(Laws, RdpCoversBothDirections) {
  for (const double sigma : {0.5, 3.0})
    for (const double q : {0.01, 0.9})
      for (const int64_t count : {2, 100}) {
        const Steps run{{.sample_rate = q, .noise_multiplier = sigma}, count};
        const double rdp = epsilon(Accountant::rdp, run, 1e-5);
        for (const auto direction : {Direction::remove, Direction::add})
          EXPECT_LE(prv_epsilon(run_pairs({&run, 1}, direction), 1e-5, kCoarse), rdp)
              << q << " " << sigma << " " << count;
      }
}

TEST(Laws, CalibrationNeverOvershoots) {
  const auto law = [](Accountant accountant, const Steps& steps, double target, double delta) {
    const auto found = calibrate(accountant, steps, target, delta);
    auto run = steps;
    run.mechanism.noise_multiplier = found.sigma;
    EXPECT_LE(epsilon(accountant, run, delta), target) << to_string(accountant);
    EXPECT_EQ(epsilon(accountant, run, delta), found.spent.epsilon);
    if (found.sigma > kMinNoise) {
      EXPECT_GE(found.spent.epsilon, target * (1 - 1e-3)) << to_string(accountant);
    }
  };
  EXPECT_TRUE(rc::check([&] {
    const auto [steps, delta] = drawn();
    const double target = between(0.3, 20);
    for (const auto accountant : {Accountant::rdp, Accountant::gdp}) {
      auto run = steps;
      run.mechanism.noise_multiplier = calibrate(accountant, steps, target, delta).sigma;
      RC_ASSERT(epsilon(accountant, run, delta) <= target);
    }
  }));
  law(Accountant::prv, {{.sample_rate = 0.02}, 500}, 3, 1e-6);
  law(Accountant::prv, {{.sample_rate = 0.5}, 10}, 0.2, 1e-5);
  law(Accountant::prv, {{.sample_rate = 1}, 1}, 10, 1e-5);
  EXPECT_EQ(test::fault([] { (void)calibrate(Accountant::rdp, {{.sample_rate = 1}, 1'000'000}, 1e-6, 1e-9); }),
            "no sigma up to 1e+06 reaches epsilon 1e-06 at delta 1e-09 by rdp; allow more epsilon, or fewer or smaller "
            "steps");
  EXPECT_EQ(test::fault([] { (void)calibrate(Accountant::rdp, {{.sample_rate = 1}, 1}, 0, 1e-9); }),
            "target epsilon 0 is out of range; expected above 0");
}

}  // namespace
}  // namespace shade::privacy
