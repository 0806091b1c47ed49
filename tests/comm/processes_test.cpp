// Worlds of real processes.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "shade/comm/mesh.h"
#include "shade/comm/partition.h"
#include "tests/support/process.h"
#include "tests/support/ranks.h"

namespace shade::comm {
namespace {

void exercise(World& world) {
  const Mesh mesh(world, {{"shard", world.size()}});
  const auto gather = mesh.group("shard", "gather");
  const auto reduce = mesh.group("shard", "reduce");
  const int64_t n = 1'000'003;
  const auto mine = slice_of(n, world.size(), world.rank());
  const auto expected = at::arange(n, at::kFloat);
  auto whole = at::empty({n});
  auto slice = at::empty({mine.size});
  // Both at once, on groups of their own.
  const auto gathered = gather.all_gather(whole, expected.narrow(0, mine.begin, mine.size).clone());
  const auto reduced = reduce.reduce_scatter(slice, expected);
  gathered.wait();
  reduced.wait();
  EXPECT_TRUE(at::equal(whole, expected));
  EXPECT_TRUE(at::equal(slice, expected.narrow(0, mine.begin, mine.size) * world.size()));
}

TEST(Processes, TwoRanks) { test::run_ranks(2, test::As::processes, exercise); }
TEST(Processes, ThreeRanks) { test::run_ranks(3, test::As::processes, exercise); }
TEST(Processes, FourRanks) { test::run_ranks(4, test::As::processes, exercise); }

TEST(Processes, WithoutALauncherRankZeroHostsTheStore) {
  const auto port = test::new_port();
  const auto seen = test::run(
      {"sh", "-c",
       text("for r in 0 1; do OMPI_COMM_WORLD_RANK=$r OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=$r "
            "OMPI_COMM_WORLD_LOCAL_SIZE=2 MASTER_PORT=",
            port, " ", test::shade_binary(), " comm --sizes 1KiB --collectives all_reduce --num-iter 1 & done; wait")});
  EXPECT_NE(seen.output.find("all_reduce  1.00 KiB"), std::string::npos) << seen.output;
}

TEST(Processes, WhoDoesNotComeIsNamed) {
  const auto port = test::new_port();
  const auto seen =
      test::run({test::shade_binary(), "comm", "--comm.rendezvous_timeout", "2s"},
                {.environment = {{"RANK", "0"}, {"WORLD_SIZE", "3"}, {"MASTER_PORT", std::to_string(port)}}});
  EXPECT_EQ(seen.status, 1);
  EXPECT_NE(seen.output.find("ranks 1, 2 of 3 did not come to the rendezvous"), std::string::npos) << seen.output;
}

TEST(Processes, DisagreeingAboutTheWorldIsAnError) {
  const auto port = test::new_port();
  const auto seen = test::run({"sh", "-c",
                               text("export MASTER_PORT=", port, "; RANK=1 WORLD_SIZE=2 ", test::shade_binary(),
                                    " comm --comm.rendezvous_timeout 5s & RANK=0 WORLD_SIZE=2 ", test::shade_binary(),
                                    " comm --ranks 3; wait")});
  EXPECT_NE(seen.output.find("--ranks 3 was asked for, but torchrun made a world of 2"), std::string::npos)
      << seen.output;
}

}  // namespace
}  // namespace shade::comm
