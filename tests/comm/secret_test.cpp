#include "shade/comm/job/secret.h"

#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <map>

#include "shade/base/error.h"

namespace shade::comm {
namespace {

std::vector<uint8_t> bytes(std::string_view words) { return {words.begin(), words.end()}; }

TEST(Secret, OpensWhatItSealedUnderTheSameNameAlone) {
  const auto words = Secret::new_digits();
  EXPECT_EQ(words.size(), 64u);
  const auto secret = Secret::of(words);
  const auto value = bytes("rank 2 waits in all_gather");
  const auto sealed = secret.seal("shade/0/board/beat/2", value);
  EXPECT_EQ(sealed.size(), value.size() + Secret::kOverhead);
  EXPECT_EQ(std::search(sealed.begin(), sealed.end(), value.begin(), value.begin() + 6), sealed.end());
  EXPECT_NE(secret.seal("shade/0/board/beat/2", value), sealed) << "a new nonce for every value";
  EXPECT_EQ(Secret::of(words).open("shade/0/board/beat/2", sealed), value);
  EXPECT_FALSE(secret.open("shade/0/board/beat/1", sealed)) << "moved to another key";
  EXPECT_FALSE(secret.open("shade/1/board/beat/2", sealed)) << "moved to another start";
  EXPECT_FALSE(Secret::of(Secret::new_digits()).open("shade/0/board/beat/2", sealed));
  EXPECT_FALSE(secret.derived("x").open("shade/0/board/beat/2", sealed));
  EXPECT_EQ(secret.derived("x").open("n", secret.derived("x").seal("n", {})), bytes(""));
}

TEST(Secret, NoChangedByteAndNoCutOpens) {
  const auto secret = Secret::of(Secret::new_digits());
  const auto sealed = secret.seal("key", bytes("value"));
  for (size_t i = 0; i < sealed.size(); ++i) {
    auto changed = sealed;
    changed[i] ^= 1;
    EXPECT_FALSE(secret.open("key", changed)) << "byte " << i;
    EXPECT_FALSE(secret.open("key", std::span(sealed).first(i))) << "cut to " << i;
  }
}

struct JobSecret : testing::Test {
  void SetUp() override {
    folder = std::filesystem::path(testing::TempDir()) / text("secret_", ::getpid());
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string write(const std::string& content, mode_t mode) const {
    const auto path = (folder / "file").string();
    std::ofstream(path) << content;
    ::chmod(path.c_str(), mode);
    return path;
  }
  Secret secret(const std::map<std::string, std::string>& variables, const Place& place = {}) const {
    return job_secret(
        place,
        [&](const char* name) -> const char* {
          const auto found = variables.find(name);
          return found == variables.end() ? nullptr : found->second.c_str();
        },
        folder);
  }
  std::string fault(const std::map<std::string, std::string>& variables, const Place& place = {}) const {
    try {
      secret(variables, place);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "none";
  }
  static bool same(const Secret& a, const Secret& b) { return b.open("n", a.seal("n", {})).has_value(); }

  std::filesystem::path folder;
  const std::string words = Secret::new_digits();
  const Place two_hosts{.size = 2, .local_size = 1, .origin = "torchrun"};
};

TEST_F(JobSecret, ComesFromTheFileThenTheVariable) {
  const auto path = write(words + "\n", 0600);
  EXPECT_TRUE(same(secret({{"SHADE_SECRET", words}}, two_hosts), Secret::of(words)));
  EXPECT_TRUE(same(secret({{"SHADE_SECRET_FILE", path}}, two_hosts), Secret::of(words))) << "without the line's end";
  EXPECT_TRUE(same(secret({{"SHADE_SECRET_FILE", path}, {"SHADE_SECRET", Secret::new_digits()}}, two_hosts),
                   Secret::of(words)));
}

TEST_F(JobSecret, AFileThatOthersMayReadIsRefusedByItsMode) {
  for (const auto& [mode, printed] : std::map<mode_t, std::string>{{0644, "0644"}, {0640, "0640"}, {0602, "0602"}}) {
    const auto path = write(words, mode);
    EXPECT_EQ(fault({{"SHADE_SECRET_FILE", path}}),
              text("the secret's file ", path, " is open to other users (mode ", printed, "): chmod 600 ", path));
  }
}

TEST_F(JobSecret, AFileOfAnotherUserIsRefusedByItsOwner) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file to another user and read it then";
  constexpr uid_t kOther = 65534, kThird = 1234;
  const auto path = write(words, 0600);
  const auto refused = [&](uid_t owner, uid_t user) {
    return text("the secret's file ", path, " belongs to user ", owner,
                ", who knows the secret and can change it; expected this user (", user, ") or root: chown ", user, " ",
                path, " if that user made it for this job, else make a new one");
  };
  EXPECT_EQ(::chown(path.c_str(), kOther, kOther), 0);
  EXPECT_EQ(fault({{"SHADE_SECRET_FILE", path}}), refused(kOther, 0));
  // As another user that may read every file.
  ASSERT_EQ(::seteuid(kOther), 0);
  ::setfsuid(0);
  EXPECT_EQ(fault({{"SHADE_SECRET_FILE", path}}), "none") << "its own";
  EXPECT_EQ(::chown(path.c_str(), 0, 0), 0);
  EXPECT_EQ(fault({{"SHADE_SECRET_FILE", path}}), "none") << "root's";
  EXPECT_EQ(::chown(path.c_str(), kThird, kThird), 0);
  EXPECT_EQ(fault({{"SHADE_SECRET_FILE", path}}), refused(kThird, kOther));
  ASSERT_EQ(::seteuid(0), 0);
}

TEST_F(JobSecret, ShortWordsAndNoFileAreRefused) {
  EXPECT_TRUE(
      fault({{"SHADE_SECRET", "hunter2"}}).starts_with("the job secret has 7 characters; expected at least 32"));
  EXPECT_EQ(fault({{"SHADE_SECRET", "hunter2"}}).find("hunter2"), std::string::npos);
  EXPECT_TRUE(fault({{"SHADE_SECRET_FILE", write("", 0600)}}).find(" has 0 characters; expected at least 32") !=
              std::string::npos);
  EXPECT_NE(fault({{"SHADE_SECRET_FILE", folder / "absent"}}).find("No such file"), std::string::npos);
  EXPECT_NE(fault({{"SHADE_SECRET_FILE", folder}}).find("is not a regular file"), std::string::npos);
}

TEST_F(JobSecret, AStatedOneNeedsNoFolderForTemporaryFiles) {
  ::setenv("TMPDIR", (folder / "missing").c_str(), 1);
  ::setenv("SHADE_SECRET", words.c_str(), 1);
  EXPECT_TRUE(same(job_secret(Place{}), Secret::of(words)));
  for (const char* name : {"TMPDIR", "SHADE_SECRET"}) ::unsetenv(name);
}

TEST_F(JobSecret, SeveralHostsNeedOne) {
  EXPECT_TRUE(fault({}, two_hosts).starts_with("ranks on several hosts (world stated by torchrun) need a job secret"));
}

TEST_F(JobSecret, OnOneHostTheUsersOwnFileIsMadeOnce) {
  std::vector<std::future<Secret>> ranks;
  for (int i = 0; i < 8; ++i) ranks.push_back(std::async(std::launch::async, [&] { return secret({}); }));
  const auto first = secret({});
  for (auto& rank : ranks) EXPECT_TRUE(same(first, rank.get()));
  const auto own = folder / text("shade-", ::geteuid());
  struct stat about{};
  ASSERT_EQ(::stat((own / "secret").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0600u);
  ASSERT_EQ(::stat(own.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0700u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(own), {}), 1);
}

TEST_F(JobSecret, AFolderThatOthersCanEnterIsNotUsed) {
  const auto own = folder / text("shade-", ::geteuid());
  std::filesystem::create_directory(own);
  ::chmod(own.c_str(), 0755);
  EXPECT_NE(fault({}).find("is not a folder of this user alone (mode 0755"), std::string::npos) << fault({});
  std::filesystem::remove(own);
  std::filesystem::create_directory(folder / "elsewhere");
  std::filesystem::create_directory_symlink(folder / "elsewhere", own);
  EXPECT_NE(fault({}).find("is not a folder of this user alone"), std::string::npos) << fault({});
}

}  // namespace
}  // namespace shade::comm
