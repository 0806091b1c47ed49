// The one object a private run is built from, and what it refuses.
#include "shade/accounting/event.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "shade/accounting/accountant.h"
#include "shade/accounting/branch.h"
#include "shade/accounting/calibrate.h"
#include "shade/accounting/prv.h"
#include "tests/support/fault.h"

namespace shade::privacy {
namespace {

const PrivacyEvent kGood{.mechanism = {.sample_rate = 0.04, .noise_multiplier = 1.5},
                         .clip_norm = 2,
                         .divisor = 64,
                         .steps = 100,
                         .delta = 1e-5};

std::string fault_of(const std::function<void(PrivacyEvent&)>& spoil) {
  auto event = kGood;
  spoil(event);
  return test::fault([&] { event.require_valid(); });
}

TEST(Event, NoiseAndAccountantComeFromOneObject) {
  EXPECT_NO_THROW(kGood.require_valid());
  EXPECT_EQ(kGood.noise_deviation(), 3.0);
  EXPECT_EQ(kGood.accounted().mechanism, kGood.mechanism);
  EXPECT_EQ(kGood.accounted().count, 100);
}

TEST(Event, FaultsNameTheFieldWhatWasExpectedAndWhy) {
  EXPECT_EQ(fault_of([](auto& e) { e.mechanism.sample_rate = 1.5; }),
            "sample rate 1.5 is not a probability; expected above 0 and at most 1: the chance of a record to be in a "
            "step's batch");
  EXPECT_EQ(
      fault_of([](auto& e) { e.mechanism.noise_multiplier = 0; }),
      "sigma 0 is out of range; expected 0.01 to 1e+06 (noise over clip norm); without noise there is no epsilon");
  EXPECT_EQ(fault_of([](auto& e) { e.delta = 0; }),
            "delta 0 is out of range; expected 1e-50 up to, not including, 1 (usual: below 1 / number of records)");
  EXPECT_EQ(fault_of([](auto& e) { e.divisor = 0; }),
            "divisor 0 is out of range; expected a positive public constant, e.g. the expected batch size");
  EXPECT_EQ(fault_of([](auto& e) { e.clip_norm = -1; }),
            "clip norm -1 is out of range; expected a positive length: it bounds what one record can add");
  EXPECT_EQ(fault_of([](auto& e) { e.steps = 0; }), "number of steps 0 is out of range; expected 1 to 1000000000");
  EXPECT_NE(fault_of([](auto& e) { e.mechanism.max_batch = 7; }).find("belong to the truncated_poisson sampler"),
            std::string::npos);
  EXPECT_NE(fault_of([](auto& e) { e.mechanism.sampler = Sampler::truncated_poisson; }).find("needs the largest batch"),
            std::string::npos);
}

TEST(Event, NotANumberIsRefusedEverywhere) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& spoil : std::vector<std::function<void(PrivacyEvent&)>>{
           [&](auto& e) { e.mechanism.sample_rate = nan; }, [&](auto& e) { e.mechanism.noise_multiplier = nan; },
           [&](auto& e) { e.delta = nan; }, [&](auto& e) { e.clip_norm = nan; }, [&](auto& e) { e.divisor = nan; }})
    EXPECT_NE(fault_of(spoil), "no error");
}

TEST(Event, ShuffledSamplingGetsNoEpsilonFromAnyAccountant) {
  auto event = kGood;
  event.mechanism.sampler = Sampler::shuffled;
  const std::array run{event.accounted()};
  for (const auto accountant : {Accountant::prv, Accountant::rdp})
    EXPECT_EQ(test::fault([&] { (void)spent(accountant, run, 1e-5); }),
              "no epsilon for the shuffled sampler: these accountants support poisson and truncated_poisson, and "
              "shuffling leaks more than Poisson sampling at the same rate; sample with poisson, or report no epsilon");
  EXPECT_EQ(test::fault([&] { (void)spent(Accountant::gdp, run, 1e-5); }),
            "gdp knows the poisson sampler only, found shuffled; use prv or rdp");
  EXPECT_NE(test::fault([&] { (void)prv_delta(run, 1.0); }), "no error");
  EXPECT_NE(test::fault([&] { (void)calibrate(Accountant::prv, run[0], 1, 1e-5); }), "no error");
}

TEST(Event, EqualMechanismsAreAddedUpAndOthersKept) {
  const Mechanism a{.sample_rate = 0.1, .noise_multiplier = 1}, b{.sample_rate = 0.1, .noise_multiplier = 2};
  const auto merged = checked(std::array{Steps{a, 2}, Steps{b, 3}, Steps{a, 5}, Steps{b, 0}});
  ASSERT_EQ(merged.size(), 2u);
  EXPECT_EQ(merged[0].count, 7);
  EXPECT_EQ(merged[1].count, 3);
  EXPECT_NE(test::fault([&] { (void)checked(std::array{Steps{a, -1}}); }), "no error");
}

}  // namespace
}  // namespace shade::privacy
