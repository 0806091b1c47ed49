#include "shade/base/log.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace shade {
namespace {

struct RestoresTheLog {
  ~RestoresTheLog() {
    log::set_sink({});
    log::set_level(log::Level::warning);
  }
};

TEST(Log, GoesToASink) {
  const RestoresTheLog restores;
  std::vector<std::string> seen;
  log::set_sink([&](log::Level level, std::string_view message) {
    seen.push_back(text(static_cast<int>(level), ' ', message));
    log::error("from inside");  // to standard error, not to the sink again
  });
  log::info("quiet");
  log::warning("one ", 1, "\033");
  log::set_level(log::Level::info);
  log::info("two");
  log::set_level(log::Level::off);
  log::error("three");
  EXPECT_EQ(seen, (std::vector<std::string>{"2 one 1\\x1b", "1 two"}));
}

// Destructors log, and those who end a job.
TEST(Log, ASinkThatThrowsEndsNothing) {
  const RestoresTheLog restores;
  log::set_sink([](log::Level, std::string_view) { throw std::runtime_error("no"); });
  testing::internal::CaptureStderr();
  log::warning("kept");
  log::warning("and the next");
  const auto said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("warning kept\n"), std::string::npos) << said;
  EXPECT_NE(said.find("and the next"), std::string::npos) << said;
}

}  // namespace
}  // namespace shade
