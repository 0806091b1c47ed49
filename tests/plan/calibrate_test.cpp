#include "shade/plan/calibrate.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>

#include "shade/base/error.h"
#include "tests/support/process.h"
#include "tests/support/ranks.h"

namespace shade::plan {
namespace {

void expect_measured(const DeviceProfile& profile) {
  for (const auto* type : {"fp32", "bf16"}) EXPECT_GT(profile.products.at(type).points.size(), 4U) << type;
  for (const auto& [name, rate] : profile.operators) EXPECT_TRUE(rate.known()) << name;
  for (const auto* rate : {&profile.attention, &profile.elementwise, &profile.copies, &profile.noise})
    EXPECT_GT(rate->per_second, 1e5);
  for (const auto& at : profile.widths) EXPECT_TRUE(at.share > 0 && at.share <= 1) << at.width << ": " << at.share;
  EXPECT_GT(profile.memory, MiB(1));
  EXPECT_GT(profile.process, MiB(20));  // libtorch alone is larger
  EXPECT_GE(profile.process_bf16.count, profile.process.count / 2);
  EXPECT_EQ(DeviceProfile::from(profile.json()).json().dump(), profile.json().dump());
}

TEST(Calibrate, OneRankHasNoCollectives) {
  test::run_ranks(1, test::As::threads, [](comm::World& world) {
    at::set_num_threads(1);
    const auto profile = calibrate(world, {.time = Seconds(0.5)});
    expect_measured(profile);
    EXPECT_TRUE(profile.collectives.empty());
    EXPECT_FALSE(profile.asynchronous);
    // The profile tells what a product takes here, within what a busy machine allows.
    const auto a = at::ones({512, 512});
    double best = 1e9;
    for (int i = 0; i < 9; ++i) {
      const auto begin = Clock::now();
      (void)a.mm(a);
      best = std::min(best, Seconds(Clock::now() - begin).count());
    }
    const double told = profile.products.at("fp32").time(2.0 * 512 * 512 * 512).count();
    EXPECT_GT(told, best / 3);
    EXPECT_LT(told, best * 10);
  });
}

// A dry run is of a whole process: ranks can't be threads.
TEST(Calibrate, RanksAgreeOnTheProfile) {
  test::run_ranks(2, test::As::processes, [](comm::World& world) {
    at::set_num_threads(1);
    const auto profile = calibrate(world, {.time = Seconds(0.5), .name = "two"});
    expect_measured(profile);
    EXPECT_EQ(profile.name, "two");
    ASSERT_EQ(profile.collectives.size(), 4U);
    for (const auto& of : profile.collectives) {
      EXPECT_EQ(of.ranks, 2);
      EXPECT_EQ(of.nodes, 1);
      EXPECT_GT(of.rate.time(32 << 20), of.rate.time(4096)) << to_string(of.kind);
    }
    EXPECT_GE(profile.contention, 0);
    EXPECT_LT(profile.contention, 1);
    EXPECT_GT(profile.inside.reachable, 0) << "for kinds that were not measured";
    // Times are averaged over ranks.
    auto rate = at::tensor(std::vector<double>{profile.elementwise.per_second, -profile.elementwise.per_second});
    world.control("calibrate_test").all_reduce(rate, {.reduce = comm::Reduce::max}).wait();
    EXPECT_EQ(rate[0].item<double>(), -rate[1].item<double>());
  });
}

TEST(CalibrateVerb, WritesAProfileThatAPlanReads) {
  const auto file =
      (std::filesystem::temp_directory_path() / text("shade_calibrate_test_", ::getpid(), ".json")).string();
  const auto seen = test::run({test::shade_binary(), "calibrate", "--time", "0.5", "--threads", "1", "--json", file},
                              {.limit = Seconds(240)});
  ASSERT_EQ(seen.status, 0) << seen.output;
  for (const auto* words : {"fp32 products", "all_gather, 2 ranks", "noise"})
    EXPECT_NE(seen.output.find(words), std::string::npos) << words << " in\n" << seen.output;
  const auto profile = device_profile(file);
  EXPECT_EQ(profile.name, "this-machine");
  EXPECT_FALSE(profile.collectives.empty());
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace shade::plan
