#include "shade/measure/peer.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <tuple>

#include "shade/base/error.h"
#include "tests/support/process.h"

namespace shade::measure {
namespace {

// Every process of a test carries this mark, so that it can be found.
constexpr const char* kMark = "SHADE_PEER_TEST";

// Two blocks, embedding, norm and head of the size below.
constexpr int64_t kParameters = 2 * (128 * (128 * 2 + 64 * 2 + 3 * 384) + 2 * 128) + 1000 * 128 + 128 + 3 * 128;

class PeerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(test::source_root() + "/.deps/peers/bin/python"))
      GTEST_SKIP() << "the peers are not installed";
    mark_ = text(::getpid());
    ::setenv(kMark, mark_.c_str(), 1);
  }
  void TearDown() override { ::unsetenv(kMark); }

  // This test itself was started without the mark.
  size_t alive() const { return test::processes_with(kMark, mark_).size(); }

  static Peer::Options options(const std::string& strategy, int ranks) {
    return {.arguments = {"--hidden", "128", "--layers", "2", "--seq", "16", "--batch", "2", "--vocab", "1000",
                          "--threads", "1", "--what", "step", "--strategy", strategy},
            .ranks = ranks};
  }

  std::string mark_;
};

TEST_F(PeerTest, OneProcess) {
  EXPECT_THROW(Peer::start({.arguments = {"--hidden", "100"}}), Error) << "refused by the peer";
  EXPECT_EQ(alive(), 0U);
  auto peer = Peer::start(options("none", 1));
  EXPECT_EQ(alive(), 1U);
  EXPECT_GT(peer.step().count(), 0);
  EXPECT_GT(peer.peak_bytes().count, 16 * kParameters) << "weights, gradients, two moments";
  peer.stop();
  EXPECT_EQ(alive(), 0U);
  EXPECT_THROW(peer.step(), Error) << "stopped";
}

TEST_F(PeerTest, RanksThatReplicateAndTheDeathOfOne) {
  auto peer = Peer::start(options("ddp", 2));
  EXPECT_EQ(alive(), 2U);
  EXPECT_GT(peer.step().count(), 0);
  EXPECT_GT(peer.peak_bytes().count, 16 * kParameters);
  const auto ours = test::processes_with(kMark, mark_);
  for (const int pid : test::processes_with("RANK", "1"))
    if (std::find(ours.begin(), ours.end(), pid) != ours.end()) ::kill(pid, SIGKILL);
  try {
    peer.step();
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("of the PyTorch peer ended without an answer"), std::string::npos);
  }
  peer.stop();
  EXPECT_EQ(alive(), 0U);
}

TEST_F(PeerTest, RanksThatShard) {
  std::vector<Bytes> peaks;
  for (const char* strategy : {"fsdp2_keep", "fsdp2_reshard"}) {
    auto peer = Peer::start(options(strategy, 2));
    EXPECT_GT(peer.step().count(), 0);
    peaks.push_back(peer.peak_bytes());
    EXPECT_EQ(peaks.back(), peer.peak_bytes()) << strategy << ": exact, so the same again";
    EXPECT_GT(peaks.back().count, 6 * kParameters) << "half of weights and moments";
    EXPECT_LT(peaks.back().count, 16 * kParameters);
  }
  EXPECT_LE(peaks[1], peaks[0]);
}

TEST(PeerRow, HasTheKeysOfEveryComparison) {
  const PeerRow row{.work = "w", .ours = Millis(30), .peer = Millis(40), .ours_peak = MiB(3), .peer_peak = MiB(2)};
  EXPECT_EQ(row.json(), Json::parse(R"({"work": "w", "ours_ms": 30.0, "peer_ms": 40.0, "ratio_time": 0.75,
                                        "ours_mb": 3.0, "peer_mb": 2.0, "ratio_memory": 1.5})"));
}

}  // namespace
}  // namespace shade::measure
