// Loops of our own on libtorch's threads.
#include "shade/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace shade {
namespace {

class Threads {
 public:
  explicit Threads(int count) : before_(at::get_num_threads()) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before_); }

 private:
  int before_;
};

TEST(ParallelFor, GivesEachElementToOnePart) {
  for (const int count : {1, 2, 3, 5}) {
    const Threads threads(count);
    for (const auto& [begin, end, grain] : {std::tuple{0, 0, 1}, {5, 6, 1}, {0, 7, 3}, {-3, 1000, 1}, {2, 1000, 400}}) {
      std::vector<std::atomic<int>> seen(2000);
      std::atomic<int> parts = 0;
      parallel_for(begin, end, grain, [&](int64_t from, int64_t to) {
        EXPECT_LT(from, to);
        ++parts;
        for (auto i = from; i < to; ++i) ++seen[static_cast<size_t>(i + 10)];
      });
      for (int i = -10; i < 1500; ++i)
        EXPECT_EQ(seen[static_cast<size_t>(i + 10)], i >= begin && i < end ? 1 : 0) << i << " " << count;
      const auto expected = std::min<int64_t>(count, (end - begin) / grain);
      EXPECT_EQ(parts, begin == end ? 0 : std::max<int64_t>(1, expected));
    }
  }
}

// A part waits for another one, which a loop that is serial would never begin.
TEST(ParallelFor, RunsPartsAtTheSameTime) {
  const Threads threads(2);
  std::atomic<int> begun = 0;
  bool together = true;
  parallel_for(0, 2, 1, [&](int64_t, int64_t) {
    ++begun;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (begun < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    if (begun < 2) together = false;
  });
  EXPECT_TRUE(together);
}

TEST(ParallelFor, IsSerialWithinAnotherOne) {
  const Threads threads(2);
  parallel_for(0, 2, 1, [&](int64_t, int64_t) {
    const auto outer = std::this_thread::get_id();
    parallel_for(0, 100, 1, [&](int64_t from, int64_t to) {
      EXPECT_EQ(to - from, 100);
      EXPECT_EQ(std::this_thread::get_id(), outer);
    });
  });
}

TEST(ParallelFor, PassesExceptionsOn) {
  for (const int count : {1, 3}) {
    const Threads threads(count);
    EXPECT_THROW(parallel_for(0, 3, 1,
                              [](int64_t from, int64_t) {
                                if (from == 0) throw std::runtime_error("of a part");
                              }),
                 std::runtime_error);
  }
}

}  // namespace
}  // namespace shade
