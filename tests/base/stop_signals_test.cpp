#include "shade/base/stop_signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

namespace shade {
namespace {

using std::chrono::milliseconds;

TEST(StopSignals, TheFirstIsNotedAndAnsweredOnce) {
  for (const int signal : {SIGTERM, SIGINT}) {
    std::atomic<int> answers = 0;
    {
      const StopSignals signals([&] { ++answers; });
      EXPECT_FALSE(StopSignals::asked());
      std::raise(signal);
      std::raise(signal);  // the same request
      EXPECT_TRUE(StopSignals::asked());
      for (int i = 0; i < 200 && answers == 0; ++i) std::this_thread::sleep_for(milliseconds(10));
    }
    EXPECT_EQ(answers, 1);
    EXPECT_TRUE(StopSignals::asked()) << "known after its end too";
  }
  const StopSignals again([] {});
  EXPECT_FALSE(StopSignals::asked()) << "a new one begins anew";
}

TEST(StopSignalsDeathTest, ASecondRequestEndsTheProcess) {
  EXPECT_EXIT(
      {
        const StopSignals signals([] {});
        std::raise(SIGINT);
        std::this_thread::sleep_for(milliseconds(600));
        std::raise(SIGTERM);
        std::this_thread::sleep_for(milliseconds(600));
        std::_Exit(0);
      },
      testing::KilledBySignal(SIGTERM), "");
}

TEST(StopSignalsDeathTest, AReaderThatIsGoneEndsNothing) {
  EXPECT_EXIT(
      {
        std::signal(SIGPIPE, SIG_DFL);
        const StopSignals signals([] {});
        int ends[2];
        if (::pipe(ends) != 0) std::_Exit(1);
        ::close(ends[0]);
        std::_Exit(::write(ends[1], "x", 1) < 0 ? 7 : 1);
      },
      testing::ExitedWithCode(7), "");
}

TEST(StopSignalsDeathTest, AfterItsEndASignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        {
          const StopSignals signals([] {});
        }
        std::raise(SIGTERM);
        std::_Exit(0);
      },
      testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace shade
