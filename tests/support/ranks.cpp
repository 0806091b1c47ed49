#include "tests/support/ranks.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <cstdlib>
#include <thread>

#include "shade/comm/job/launch.h"

namespace shade::test {
namespace {

constexpr const char* kInside = "SHADE_TEST_RANK_OF";

void run_threads(int ranks, const std::function<void(comm::World&)>& body, const comm::CommConfig& config) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        auto world = comm::World::connect({.rank = rank, .size = ranks, .local_rank = rank, .local_size = ranks},
                                          config, store, {.watchdog = false});
        at::set_num_threads(1);  // as the program does for several ranks of a host
        body(world);
        world.leave();
      } catch (const std::exception& fault) {
        ADD_FAILURE() << "rank " << rank << " threw: " << fault.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

void run_inside(const std::function<void(comm::World&)>& body, const comm::CommConfig& config) {
  at::set_num_threads(1);
  auto world = comm::World::connect(comm::place_from_environment(), config);
  try {
    body(world);
  } catch (...) {
    world.fail(std::current_exception());
    throw;
  }
  if (testing::Test::HasFailure())
    world.fail(std::make_exception_ptr(Error("an assertion failed")));
  else
    world.leave();
}

std::string this_test() {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  return text(info->test_suite_name(), ".", info->name());
}

void run_processes(int ranks) {
  const auto result = comm::launch({.ranks = ranks,
                                    .command = {"/proc/self/exe", "--gtest_brief=1", "--gtest_filter=" + this_test()},
                                    .environment = {{kInside, this_test()}}});
  EXPECT_EQ(result.status, 0) << (result.first ? text("rank ", result.first->rank, ": ", result.first->reason) : "")
                              << "\n"
                              << result.positions;
}

}  // namespace

void run_ranks(int ranks, As as, const std::function<void(comm::World&)>& body, const comm::CommConfig& config) {
  const char* inside = std::getenv(kInside);
  if (inside != nullptr && this_test() == inside) return run_inside(body, config);
  if (as == As::threads)
    run_threads(ranks, body, config);
  else
    run_processes(ranks);
}

}  // namespace shade::test
