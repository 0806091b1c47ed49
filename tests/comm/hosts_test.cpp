// Two hosts: network namespaces joined by a veth pair, one rank in each.
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/process.h"

namespace shade::comm {
namespace {

struct Hosts : testing::Test {
  void SetUp() override {
    const auto made = test::run(
        {"sh", "-c",
         text("set -e; ip netns add ", a, "; ip netns add ", b, "; ip link add ", va, " netns ", a,
              " type veth peer name ", vb, " netns ", b, "; ip -n ", a, " addr add 10.77.0.1/24 dev ", va, "; ip -n ",
              b, " addr add 10.77.0.2/24 dev ", vb, "; ip -n ", a, " link set ", va, " up; ip -n ", b, " link set ", vb,
              " up; ip -n ", a, " link set lo up; ip -n ", b, " link set lo up")});
    if (made.status != 0) GTEST_SKIP() << "network namespaces cannot be made here: " << made.output;
  }
  void TearDown() override { test::run({"sh", "-c", text("ip netns del ", a, "; ip netns del ", b)}); }

  std::string on(const std::string& host, int rank, const std::string& options) const {
    return text("ip netns exec ", host, " env RANK=", rank, " WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 ",
                "MASTER_ADDR=10.77.0.1 MASTER_PORT=29400 ", test::shade_binary(), " comm ", options);
  }

  std::string id = std::to_string(::getpid());
  std::string a = "shade-a-" + id, b = "shade-b-" + id, va = "va" + id, vb = "vb" + id;
};

TEST_F(Hosts, TwoHostsAreOneWorld) {
  const std::string options = "--sizes 1MiB --num-iter 2 --collectives all_gather,reduce_scatter";
  const auto seen =
      test::run({"sh", "-c", text(on(b, 1, options), " & ", on(a, 0, options), "; status=$?; wait; exit $status")});
  EXPECT_EQ(seen.status, 0) << seen.output;
  EXPECT_NE(seen.output.find("reduce_scatter  1.00 MiB"), std::string::npos) << seen.output;
}

TEST_F(Hosts, ACutCableEndsBothSides) {
  const std::string options = "--sizes 64MiB --num-iter 100000 --collectives all_reduce --comm.peer_timeout 5s";
  const auto seen = test::run(
      {"sh", "-c",
       text(on(b, 1, options), " & ", on(a, 0, options), " & sleep 3; ip -n ", a, " link set ", va, " down; wait")},
      {.limit = Seconds(30)});
  EXPECT_LT(seen.took.count(), 14) << seen.output;
  EXPECT_NE(seen.output.find("rank 1 is stopped or dead"), std::string::npos) << seen.output;
  EXPECT_NE(seen.output.find("the store at 10.77.0.1:29400 "), std::string::npos) << seen.output;
}

}  // namespace
}  // namespace shade::comm
