// A chained file that several processes append to: real processes, killed while they append and appending at once.
#include "shade/checkpoint/chain.h"

#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <thread>

#include "shade/base/error.h"
#include "shade/io/errors.h"
#include "tests/support/fault.h"

namespace shade::checkpoint {
namespace {

class SharedChainTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove(file_);
    chain_.create({{"format", "test"}});
  }
  void TearDown() override { std::filesystem::remove(file_); }

  std::string content() const {
    std::ifstream in(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void replace(const std::string& words) const { std::ofstream(file_, std::ios::binary | std::ios::trunc) << words; }
  ChainMark add(int who, int number) const {
    return chain_.append([&](const Chain&) { return Json{{"who", who}, {"number", number}}; });
  }

  const std::filesystem::path file_ =
      std::filesystem::path(testing::TempDir()) / text("shared_chain_", ::getpid(), ".ledger");
  const SharedChain chain_{file_, "the test ledger"};
};

TEST_F(SharedChainTest, IsTheOwnersAndMadeOnce) {
  struct stat about{};
  ASSERT_EQ(::stat(file_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600U);
  EXPECT_NE(test::fault([&] { chain_.create({{"format", "test"}}); }).find("there is a file of that name"),
            std::string::npos);
  EXPECT_NE(
      test::fault([&] { (void)SharedChain(file_.string() + ".no", "the test ledger").read(); }).find("No such file"),
      std::string::npos);
}

TEST_F(SharedChainTest, NextSeesWhatIsThereAndMayAppendNothing) {
  const auto mark = add(1, 7);
  EXPECT_EQ(mark.line, 2U);
  EXPECT_EQ(chain_.append([](const Chain& chain) -> std::optional<Json> {
    EXPECT_EQ(chain.records.size(), 2U);
    return std::nullopt;
  }),
            mark);
  EXPECT_EQ(end_of(chain_.read()), mark);
  EXPECT_TRUE(has(chain_.read(), mark));
  EXPECT_FALSE(has(chain_.read(), {3, mark.digest}));
}

// A process of its own that ends with the body, also if that throws: gtest would go on with the next test in it.
int start(const std::function<void()>& body) {
  const int child = ::fork();
  if (child != 0) return child;
  try {
    body();
  } catch (...) {
    ::_exit(1);
  }
  ::_exit(0);
}

// The writer says each number when its append has returned. Whatever it had said before it was killed is in the file,
// in order, and the file goes on.
TEST_F(SharedChainTest, TwentyKillsDuringAppendsLoseNothing) {
  int said_in_all = 0, number = 0;
  for (int kill = 0; kill < 20; ++kill) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const int child = start([&] {
      for (int i = number; i < number + 100'000; ++i) {
        add(kill, i);
        if (::write(pipe[1], &i, sizeof i) != sizeof i) ::_exit(1);
      }
    });
    ASSERT_GT(child, 0);
    ::close(pipe[1]);
    int said = 0, last = number - 1;
    // After a first append, and then at another moment of an append each time.
    ASSERT_EQ(::read(pipe[0], &said, sizeof said), static_cast<ssize_t>(sizeof said));
    last = said;
    std::this_thread::sleep_for(std::chrono::microseconds(1500 + 937 * kill));
    ::kill(child, SIGKILL);
    while (::read(pipe[0], &said, sizeof said) == static_cast<ssize_t>(sizeof said)) last = said;
    ::close(pipe[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    const auto chain = chain_.read();
    int found = -1;
    for (const auto& record : chain.records)
      if (const auto json = Json::parse(record); json.contains("number")) {
        EXPECT_EQ(json["number"].get<int>(), found + 1);
        found = json["number"];
      }
    EXPECT_GE(found, last) << "an append that had returned is not in the file";
    EXPECT_LE(found, last + 1) << "at most the one that was being made";
    said_in_all += last - number + 1;
    number = found + 1;
  }
  EXPECT_GT(said_in_all, 20);
}

// As if the power had failed at every byte of the last line.
TEST_F(SharedChainTest, ATornLineCountsNothingAndIsSealed) {
  add(0, 0);
  const auto whole = content();
  add(0, 1);
  const auto longer = content();
  for (size_t size = whole.size(); size < longer.size(); ++size) {
    replace(longer.substr(0, size));
    EXPECT_EQ(chain_.read().records.size(), 2U) << size;
    add(0, 2);
    const auto chain = chain_.read();
    EXPECT_EQ(Json::parse(chain.records.back())["number"], 2) << size;
    EXPECT_EQ(chain.records.size(), size == whole.size() ? 3U : 4U) << "with a seal, if there was something to seal";
    EXPECT_EQ(chain.torn, 0U);
  }
}

TEST_F(SharedChainTest, EveryChangedByteIsNoticed) {
  add(0, 0);
  add(0, 1);
  const auto whole = content();
  for (size_t at = 0; at < whole.size(); ++at) {
    auto words = whole;
    words[at] ^= 1;
    replace(words);
    bool noticed = false;
    try {
      noticed = chain_.read().records.size() < 3;  // an end of line that is gone leaves a torn line
    } catch (const io::FormatError& fault) {
      noticed = std::string(fault.what()).find("is damaged") != std::string::npos;
    }
    EXPECT_TRUE(noticed) << "byte " << at;
  }
}

TEST_F(SharedChainTest, ProcessesThatAppendAtOnceInterleave) {
  constexpr int kEach = 60;
  std::vector<int> children;
  for (int who = 0; who < 2; ++who) {
    const int child = start([&] {
      for (int i = 0; i < kEach; ++i) {
        // Decided by what is there: two that read the same state would write the same total.
        chain_.append(
            [&](const Chain& chain) { return Json{{"who", who}, {"number", i}, {"total", chain.records.size()}}; });
        std::this_thread::yield();
      }
    });
    ASSERT_GT(child, 0);
    children.push_back(child);
  }
  for (const int child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  const auto chain = chain_.read();
  ASSERT_EQ(chain.records.size(), 2U * kEach + 1);
  int next[2] = {0, 0};
  for (size_t i = 1; i < chain.records.size(); ++i) {
    const auto json = Json::parse(chain.records[i]);
    EXPECT_EQ(json["number"], next[json["who"].get<int>()]++) << "each one's lines stay in its order";
    EXPECT_EQ(json["total"], i) << "decided by all lines before it";
  }
}

TEST_F(SharedChainTest, GivesUpOnALockThatIsNeverReleased) {
  const int other = ::open(file_.c_str(), O_RDWR);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  const auto fault =
      test::fault<Error>([&] { chain_.append([](const Chain&) { return Json{{"a", 1}}; }, Seconds{0.05}); });
  EXPECT_NE(fault.find("was locked by another process"), std::string::npos) << fault;
  ::close(other);
  EXPECT_EQ(add(0, 0).line, 2U);
}

TEST_F(SharedChainTest, RefusesALink) {
  const auto link = file_.string() + ".link";
  std::filesystem::remove(link);
  std::filesystem::create_symlink(file_, link);
  const SharedChain through(link, "the test ledger");
  EXPECT_NE(test::fault([&] { (void)through.read(); }).find("a symbolic link"), std::string::npos);
  std::filesystem::remove(link);
}

}  // namespace
}  // namespace shade::checkpoint
