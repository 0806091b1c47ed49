#include "shade/profile/phases.h"

#include <gtest/gtest.h>

#include <thread>

namespace shade::profile {
namespace {

TEST(Phases, AddUpByNameAndByIndex) {
  Phases phases;
  for (int i = 0; i < 4; ++i) {
    const Span outer("outer");
    const Span inner("inner", i % 2);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const auto names = phases.by_name();
  EXPECT_GE(names.at("outer").count(), 20);
  EXPECT_GE(names.at("outer"), names.at("inner")) << "phases nest";
  const auto indices = phases.by_index("inner");
  ASSERT_EQ(indices.size(), 2u);
  EXPECT_NEAR((indices.at(0) + indices.at(1)).count(), names.at("inner").count(), 1e-9);
  phases.restart();
  EXPECT_TRUE(phases.by_name().empty());
}

TEST(Phases, HearNothingOnceGone) {
  {
    Phases phases;
  }
  const Span span("unheard");
  Phases later;
  EXPECT_TRUE(later.by_name().empty());
}

}  // namespace
}  // namespace shade::profile
