// Two hosts (network namespaces), one rank on each.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "shade/base/temporary_folder.h"
#include "shade/comm/job/secret.h"
#include "tests/comm/hosts.h"
#include "tests/comm/private_job.h"
#include "tests/comm/sniffer.h"
#include "tests/comm/weight_pieces.h"
#include "tests/support/process.h"

namespace shade::comm {
namespace {

struct Hosts : testing::Test {
  void SetUp() override {
    if (!test::can_make_hosts()) GTEST_SKIP() << "network namespaces cannot be made here";
    a.emplace();
    b.emplace();
    cable = test::lay_cable(*a, "10.77.0.1/24", *b, "10.77.0.2/24").first;
  }

  std::string on(const test::Host& host, int rank, const std::string& options) const {
    return text("RANK=", rank, " WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.77.0.1 MASTER_PORT=29400 ",
                "SHADE_SECRET=", secret, " ", host.on(test::shade_binary()), " ", options);
  }
  test::Outcome on_both(const std::string& options, const std::string& meanwhile = ":") const {
    return test::run({"sh", "-c",
                      text(on(*b, 1, options), " & other=$!; ", meanwhile, "; ", on(*a, 0, options),
                           "; status=$?; wait $other; echo statuses $status $?")});
  }

  const std::string secret = Secret::new_digits();
  std::optional<test::Host> a, b;
  std::string cable;  // its end on host a
};

TEST_F(Hosts, TwoHostsAreOneWorld) {
  const std::string options = "comm --sizes 1MiB --num-iter 2 --collectives all_gather,reduce_scatter";
  const auto seen = on_both(options);
  EXPECT_NE(seen.output.find("statuses 0 0"), std::string::npos) << seen.output;
  EXPECT_NE(seen.output.find("reduce_scatter  1.00 MiB"), std::string::npos) << seen.output;
}

TEST_F(Hosts, ACutCableEndsBothSides) {
  const std::string options = "comm --sizes 64MiB --num-iter 100000 --collectives all_reduce --comm.peer_timeout 5s";
  const auto seen = test::run({"sh", "-c",
                               text(on(*b, 1, options), " & ", on(*a, 0, options), " & sleep 3; ip -n ", a->name(),
                                    " link set ", cable, " down; wait")},
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
  const TemporaryFolder kept("shade-sniffed");
  const auto folder = kept / "run";
  test::Sniffer wire(a->name(), cable);
  const auto seen = on_both(
      text("train --shard zero3 --model llama-nano --synthetic --from-scratch --hidden-dim 64 --num-layers 2 ",
           "--num-heads 4 --num-kv-heads 2 --vocab-size 260 --ffn-dim 64 --steps 20 --batch-size 6 --seq-length 8 ",
           "--records 30 --dp flash_bookkeeping --sigma 1 --delta 1e-3 --threads 1 --peak-gflops 100 --keep-key ",
           "--comm.peer_timeout 2s --output ", folder),
      b->on("bash -c 'echo planted in clear > /dev/udp/10.77.0.1/9'"));
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
}

// The weights before the first step and after each of them, which ranks gather.
TEST_F(Hosts, WeightsCrossInClearOnlyIfSealingIsOff) {
  const TemporaryFolder folder("shade-sniffed");
  test::WeightPieces weights;
  const auto run = [&](const std::string& name, const std::string& options) {
    const auto seen = on_both(test::private_run(folder / name, options));
    ASSERT_NE(seen.output.find("statuses 0 0"), std::string::npos) << seen.output;
  };
  run("initial", "--steps 1 --lr 0");
  weights.add(folder / "initial");
  for (const std::string seal : {"auto", "off"}) {
    test::Sniffer wire(a->name(), cable);
    run(seal, "--comm.seal " + seal);
    wire.stop();
    weights.add(folder / seal);
    EXPECT_FALSE(wire.lost_packets());
    EXPECT_GT(wire.bytes(), 1'000'000u);
    ASSERT_GT(weights.size(), 300'000u);
    size_t found = 0;
    for (const auto& [name, payload] : wire.streams()) found += weights.found_in(payload);
    if (seal == "off")
      EXPECT_GT(found, 100'000u);
    else
      EXPECT_EQ(found, 0u);
  }
}

TEST_F(Hosts, AHostWithAnotherSecretIsNamed) {
  const auto other = text("SHADE_SECRET=", secret);
  auto rank1 = on(*b, 1, "comm");
  rank1.replace(rank1.find(other), other.size(), "SHADE_SECRET=" + Secret::new_digits());
  const auto seen = test::run(
      {"sh", "-c",
       text(rank1, " & other=$!; ", on(*a, 0, "comm"), "; status=$?; wait $other; ", "echo statuses $status $?")});
  EXPECT_NE(seen.output.find("rank 1 has another job secret than rank 0"), std::string::npos) << seen.output;
  EXPECT_NE(seen.output.find("rank 0 has another job secret than rank 1"), std::string::npos) << seen.output;
  EXPECT_NE(seen.output.find("statuses 1 1"), std::string::npos) << seen.output;
}

}  // namespace
}  // namespace shade::comm
