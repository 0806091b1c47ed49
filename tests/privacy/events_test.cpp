// Mixed events from a file: what is read, what is refused.
#include "shade/accounting/events.h"

#include <gtest/gtest.h>

#include "tests/support/fault.h"

namespace shade::privacy {
namespace {

TEST(Events, AreReadFromAListOrAnObject) {
  const auto list = events_in(Json::parse(R"([{"sigma": 1.1, "sample_rate": 0.01, "steps": 500},
      {"sigma": 2, "sample_rate": 0.1, "steps": 20, "sampler": "truncated_poisson", "max_batch": 64, "population": 1000}])"));
  ASSERT_EQ(list.events.size(), 2U);
  EXPECT_EQ(list.events[0].steps.mechanism, (Mechanism{.sample_rate = 0.01, .noise_multiplier = 1.1}));
  EXPECT_EQ(list.events[0].steps.count, 500);
  EXPECT_EQ(list.events[1].steps.mechanism.max_batch, 64);
  EXPECT_FALSE(list.delta || list.unit());
  const auto whole = events_in(Json::parse(
      R"({"delta": 1e-7, "unit": "user", "unit_by": "name", "file": 7, "events": [{"sigma": 1, "sample_rate": 1, "steps": 1, "run": "a"}]})"));
  EXPECT_EQ(whole.delta, 1e-7);
  EXPECT_EQ(whole.unit(), PrivacyUnit::user);
  EXPECT_EQ(whole.events[0].run, "a");
  for (const auto& event : list.events) {
    auto back = mechanism_json(event.steps.mechanism);
    EXPECT_EQ(mechanism_from(back), event.steps.mechanism);
  }
}

TEST(Events, AreRefusedByName) {
  const auto fault = [](const char* words) { return test::fault([&] { (void)events_in(Json::parse(words)); }); };
  EXPECT_EQ(fault(R"([{"sigma": 1, "sample_rate": 0.1, "steps": 5}, {"sigma": 1, "sample_rate": 0.1}])"),
            "event 2: expected a whole number 'steps' of at least 0, found none");
  EXPECT_EQ(fault(R"([{"sigma": 1, "sample_rate": 0.1, "steps": 1.5}])"),
            "event 1: expected a whole number 'steps' of at least 0, found 1.5");
  EXPECT_EQ(fault(R"([{"sigma": "1", "sample_rate": 0.1, "steps": 1}])"),
            "event 1: expected a number 'sigma', found \"1\"");
  EXPECT_NE(
      fault(R"([{"sigma": 1, "sample_rate": 0.1, "steps": 5, "smapler": "shuffled"}])").find("did you mean 'sampler'"),
      std::string::npos)
      << "not taken for Poisson sampling";
  EXPECT_NE(fault(R"([{"sigma": 0, "sample_rate": 0.1, "steps": 5}])").find("event 1: sigma 0 is out of range"),
            std::string::npos);
  EXPECT_NE(fault(R"({"runs": []})").find("expected a list of events"), std::string::npos);
  EXPECT_NE(fault(R"([{"sigma": 1, "sample_rate": 0.1, "steps": 5, "unit": "record"},
                      {"sigma": 1, "sample_rate": 0.1, "steps": 5, "unit": "user"}])")
                .find("event 2 protects one user, and an event before it one record"),
            std::string::npos);
  EXPECT_NE(fault(R"([{"sigma": 1, "sample_rate": 0.1, "steps": 5, "unit": "user", "unit_by": "a"},
                      {"sigma": 1, "sample_rate": 0.1, "steps": 5}])")
                .find("event 2 does not say what it protects"),
            std::string::npos);
  EXPECT_NE(fault(R"([{"sigma": 1, "sample_rate": 0.1, "steps": 5, "unit": "user", "unit_by": "a"},
                      {"sigma": 1, "sample_rate": 0.1, "steps": 5, "unit": "user", "unit_by": "b"}])")
                .find("one user by 'b'"),
            std::string::npos);
}

}  // namespace
}  // namespace shade::privacy
