// Event files: the bytes against a record written by TensorFlow's rules, and the whole against TensorBoard itself.
#include "shade/profile/events.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "shade/base/json.h"
#include "tests/support/process.h"

namespace shade::profile {
namespace {

namespace fs = std::filesystem;

class Events : public testing::Test {
 protected:
  Events() : folder(fs::path(testing::TempDir()) / shade::text("events_", ::getpid())) {}
  ~Events() override { fs::remove_all(folder); }

  static std::string content(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  Json read_by_tensorboard() const {
    const auto seen = test::run({test::source_root() + "/.deps/peers/bin/python",
                                 test::source_root() + "/tests/profile/read_events.py", folder.string()},
                                {.environment = {{"PYTHONDONTWRITEBYTECODE", "1"}}, .limit = Seconds(100)});
    SHADE_CHECK(seen.status == 0, seen.output);
    return Json::parse(seen.output.substr(seen.output.rfind("{\"scalars\"")));
  }

  fs::path folder;
};

TEST_F(Events, BeginWithTheVersionUnderBothChecksums) {
  EventFile file(folder / "made" / "here");
  file.flush();
  EXPECT_EQ(file.path().parent_path(), folder / "made" / "here");
  EXPECT_EQ(file.path().filename().string().rfind("events.out.tfevents.", 0), 0u);
  const auto bytes = content(file.path());
  // 8 of length, 4 of crc, 9 of time, 2 of step, 2 + 13 of version, 4 of crc
  ASSERT_EQ(bytes.size(), 8u + 4 + 9 + 2 + 15 + 4);
  uint32_t crc = 0;
  std::memcpy(&crc, bytes.data() + 8, 4);
  EXPECT_EQ(crc, 0x2dd89b12u) << "the masked crc32c of a length of 26";
  EXPECT_NE(bytes.find("brain.Event:2"), std::string::npos);
}

TEST_F(Events, OfOneSecondDontMeet) {
  EventFile one(folder), other(folder);
  EXPECT_NE(one.path(), other.path());
}

TEST_F(Events, AreRefusedWhereNoFileCanBe) {
  fs::create_directories(folder);
  std::ofstream(folder / "taken") << "a file";
  EXPECT_ANY_THROW(EventFile(folder / "taken"));
}

TEST_F(Events, ComeBackFromTensorBoardAsTheyWere) {
  if (!fs::exists(test::source_root() + "/.deps/peers/bin/python"))
    GTEST_SKIP() << "no tensorboard: run tools/bootstrap peers";
  const std::vector<double> losses{5.5, 0.1, -3e-30, 1e30, 0};
  const auto before = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  {
    EventFile file(folder);
    for (size_t i = 0; i < losses.size(); ++i) file.scalar("train/loss", losses[i], 1000 * static_cast<int64_t>(i));
    file.scalar("once", 7, int64_t{1} << 40);
    file.text("configuration", "| key | value |\n|---|---|\n| größe | 3 |");
    file.text("long", std::string(100'000, 'x'));
    file.flush();
  }
  const auto read = read_by_tensorboard();
  const auto& scalars = read.at("scalars");
  ASSERT_EQ(scalars.size(), 2u);
  ASSERT_EQ(scalars.at("train/loss").size(), losses.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    const auto& event = scalars.at("train/loss")[i];
    EXPECT_EQ(event[0], 1000 * i);
    EXPECT_EQ(event[1].get<double>(), static_cast<double>(static_cast<float>(losses[i])));
    EXPECT_NEAR(event[2].get<double>(), before, 60);
  }
  EXPECT_EQ(scalars.at("once")[0][0], int64_t{1} << 40);
  EXPECT_EQ(read.at("tensors").at("configuration")[0], "| key | value |\n|---|---|\n| größe | 3 |");
  EXPECT_EQ(read.at("tensors").at("long")[0].get<std::string>().size(), 100'000u);
  EXPECT_EQ(read.at("plugins").at("configuration"), "text");
}

TEST_F(Events, OfStepsThatAreMadeAgainAreNoLongerShown) {
  if (!fs::exists(test::source_root() + "/.deps/peers/bin/python"))
    GTEST_SKIP() << "no tensorboard: run tools/bootstrap peers";
  {
    EventFile first(folder);
    for (int64_t step = 1; step <= 5; ++step) first.scalar("train/loss", static_cast<double>(step), step);
  }
  {
    EventFile second(folder);
    second.begin_at(3);
    second.scalar("eval/loss", 7, 3);
  }
  const auto scalars = read_by_tensorboard().at("scalars");
  ASSERT_EQ(scalars.at("train/loss").size(), 2u) << scalars;
  EXPECT_EQ(scalars.at("train/loss")[1][0], 2);
  EXPECT_EQ(scalars.at("eval/loss").size(), 1u);
}

}  // namespace
}  // namespace shade::profile
