// Two hosts: network namespaces joined by a veth pair, one rank in each.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "shade/comm/job/secret.h"
#include "tests/comm/sniffer.h"
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
                "MASTER_ADDR=10.77.0.1 MASTER_PORT=29400 SHADE_SECRET=", secret, " ", test::shade_binary(), " ",
                options);
  }
  test::Outcome on_both(const std::string& options, const std::string& meanwhile = ":") const {
    return test::run({"sh", "-c",
                      text(on(b, 1, options), " & other=$!; ", meanwhile, "; ", on(a, 0, options),
                           "; status=$?; wait $other; echo statuses $status $?")});
  }

  const std::string secret = Secret::new_words();

  std::string id = std::to_string(::getpid());
  std::string a = "shade-a-" + id, b = "shade-b-" + id, va = "va" + id, vb = "vb" + id;
};

TEST_F(Hosts, TwoHostsAreOneWorld) {
  const std::string options = "comm --sizes 1MiB --num-iter 2 --collectives all_gather,reduce_scatter";
  const auto seen = on_both(options);
  EXPECT_NE(seen.output.find("statuses 0 0"), std::string::npos) << seen.output;
  EXPECT_NE(seen.output.find("reduce_scatter  1.00 MiB"), std::string::npos) << seen.output;
}

TEST_F(Hosts, ACutCableEndsBothSides) {
  const std::string options = "comm --sizes 64MiB --num-iter 100000 --collectives all_reduce --comm.peer_timeout 5s";
  const auto seen = test::run(
      {"sh", "-c",
       text(on(b, 1, options), " & ", on(a, 0, options), " & sleep 3; ip -n ", a, " link set ", va, " down; wait")},
      {.limit = Seconds(30)});
  EXPECT_LT(seen.took.count(), 14) << seen.output;
  EXPECT_NE(seen.output.find("rank 1 is stopped or dead"), std::string::npos) << seen.output;
  EXPECT_NE(seen.output.find("the store at 10.77.0.1:29400 "), std::string::npos) << seen.output;
}

std::string content_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A private run over two hosts, and somebody who listens on the wire between them.
TEST_F(Hosts, NeitherTheNoiseKeyNorControlValuesCrossInClear) {
  const auto folder = std::filesystem::path(testing::TempDir()) / text("sniffed_", id);
  std::filesystem::remove_all(folder);
  test::Sniffer wire(a, va);
  const auto seen = on_both(
      text("train --shard zero3 --model llama-nano --synthetic --from-scratch --hidden-dim 64 --num-layers 2 ",
           "--num-heads 4 --num-kv-heads 2 --vocab-size 260 --ffn-dim 64 --steps 20 --batch-size 6 --seq-length 8 ",
           "--records 30 --dp flash_bookkeeping --sigma 1 --delta 1e-3 --threads 1 --peak-gflops 100 --keep-key ",
           "--comm.peer_timeout 2s --output ", folder),
      text("ip netns exec ", b, " bash -c 'echo planted in clear > /dev/udp/10.77.0.1/9'"));
  wire.stop();
  ASSERT_NE(seen.output.find("statuses 0 0"), std::string::npos) << seen.output;

  // What the sniffer can do: nothing was lost, and what is in clear is found.
  EXPECT_FALSE(wire.lost_packets());
  EXPECT_GT(wire.bytes(), 1'000'000u);
  EXPECT_TRUE(wire.saw("planted in clear"));
  EXPECT_TRUE(wire.saw("/board/beat/1")) << "keys of the store are in clear";

  const auto key = content_of(folder / "key");
  ASSERT_EQ(key.size(), 32u);
  EXPECT_FALSE(wire.saw(key));
  const auto ledger = content_of(folder / "ledger");
  const auto fresh = ledger.substr(ledger.find("\"fresh\":\"") + 9, 64);
  ASSERT_EQ(fresh.find_first_not_of("0123456789abcdef"), std::string::npos) << ledger;
  EXPECT_FALSE(wire.saw(fresh));
  EXPECT_FALSE(wire.saw(secret));
  for (const char* control : {"joining", "running", "waits in", "computes", "all_gather", "sample_rate", "incarnation"})
    EXPECT_FALSE(wire.saw(control)) << control;
  std::filesystem::remove_all(folder);
}

TEST_F(Hosts, AHostWithAnotherSecretIsNamed) {
  const auto other = text("SHADE_SECRET=", secret);
  auto rank1 = on(b, 1, "comm");
  rank1.replace(rank1.find(other), other.size(), "SHADE_SECRET=" + Secret::new_words());
  const auto seen = test::run(
      {"sh", "-c",
       text(rank1, " & other=$!; ", on(a, 0, "comm"), "; status=$?; wait $other; ", "echo statuses $status $?")});
  EXPECT_NE(seen.output.find("rank 1 has another job secret than rank 0"), std::string::npos) << seen.output;
  EXPECT_NE(seen.output.find("rank 0 has another job secret than rank 1"), std::string::npos) << seen.output;
  EXPECT_NE(seen.output.find("statuses 1 1"), std::string::npos) << seen.output;
}

}  // namespace
}  // namespace shade::comm
