// Files that the user names: whatever is there already is written to, replaced or left alone by one set of rules.
#include "shade/base/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <future>

#include "shade/base/error.h"
#include "shade/base/json.h"
#include "tests/io/scratch.h"

namespace shade {
namespace {

namespace fs = std::filesystem;

mode_t mode_of(const fs::path& file) {
  struct stat about{};
  return ::lstat(file.c_str(), &about) == 0 ? about.st_mode : 0;
}

struct OutputFile : testing::Test {
  OutputFile() : umask(::umask(022)) {}
  ~OutputFile() override { ::umask(umask); }

  // Neither check nor write lets it pass, and nothing is left behind.
  std::string refused(const fs::path& file) const {
    const auto before = names();
    const auto said = io::message_of<UsageError>([&] { check_output(file); });
    EXPECT_EQ(io::message_of<UsageError>([&] { write_json(file, {{"a", 1}}); }), said);
    EXPECT_EQ(names(), before);
    return said;
  }
  std::vector<fs::path> names() const {
    std::vector<fs::path> out;
    for (const auto& entry : fs::recursive_directory_iterator(here.path())) out.push_back(entry.path());
    std::sort(out.begin(), out.end());
    return out;
  }
  fs::path at(const char* name) const { return here.path() / name; }

  io::Scratch here;
  mode_t umask;
};

TEST_F(OutputFile, NewOnesFollowTheUmaskAndReplacedOnesKeepTheirMode) {
  write_output(at("new"), "1");
  EXPECT_EQ(mode_of(at("new")) & 0777, 0644u);
  for (const mode_t mode : {0600u, 0664u, 0666u}) {
    ::chmod(at("new").c_str(), mode);
    write_output(at("new"), "2");
    EXPECT_EQ(mode_of(at("new")) & 0777, mode);
  }
  EXPECT_EQ(io::content(at("new")), "2");
  EXPECT_EQ(names().size(), 1u) << "no temporary file is left";
}

TEST_F(OutputFile, LinksToFilesAreFollowedAndStay) {
  fs::create_directories(at("a/b"));
  const auto target = here.write("a/b/real", "old");
  ::chmod(target.c_str(), 0640);
  fs::create_symlink("b/real", at("a/middle"));
  fs::create_symlink("a/middle", at("link"));
  EXPECT_EQ(regular_output(at("link")), fs::canonical(target));
  write_output(at("link"), "new");
  EXPECT_TRUE(fs::is_symlink(at("link")) && fs::is_symlink(at("a/middle")));
  EXPECT_FALSE(fs::is_symlink(target));
  EXPECT_EQ(io::content(target), "new");
  EXPECT_EQ(mode_of(target) & 0777, 0640u);
}

TEST_F(OutputFile, LinksToNothingAndLoopsAreRefused) {
  fs::create_symlink(at("absent"), at("dangling"));
  const auto said = refused(at("dangling"));
  EXPECT_NE(said.find("dangling\": it is a symbolic link to "), std::string::npos) << said;
  EXPECT_NE(said.find("absent\", which doesn't exist"), std::string::npos) << said;
  fs::create_symlink(at("one"), at("two"));
  fs::create_symlink(at("two"), at("one"));
  EXPECT_NE(refused(at("one")).find("leads to itself"), std::string::npos);
}

TEST_F(OutputFile, MissingFoldersAreMadeWhenTheFileIsWritten) {
  const auto file = at("result") / "of" / "mine.json";
  check_output(file);
  EXPECT_FALSE(fs::exists(at("result"))) << "checking touches nothing";
  write_output(file, "{}");
  EXPECT_EQ(io::content(file), "{}");
  EXPECT_TRUE(fs::is_directory(regular_output(at("traces") / "run.json").parent_path()));
  here.write("file", "");
  EXPECT_NE(refused(at("file") / "below").find("Not a directory"), std::string::npos);
  EXPECT_NE(refused(at("file") / "deeper" / "below").find("Not a directory"), std::string::npos);
  fs::create_symlink(at("nothing"), at("link"));
  EXPECT_NE(refused(at("link") / "below").find("link\" is not a folder"), std::string::npos);
}

TEST_F(OutputFile, FoldersAreNoFiles) {
  fs::create_directories(at("folder"));
  for (const auto& name : {at("folder"), at("folder/"), at("absent/")})
    EXPECT_NE(refused(name).find("expected "), std::string::npos);
  fs::create_symlink(at("folder"), at("link"));
  EXPECT_NE(refused(at("link")).find("a folder; expected the name of a file"), std::string::npos);
}

TEST_F(OutputFile, FifosAreWrittenThrough) {
  const auto pipe = at("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string large(300'000, 'x');  // more than a pipe holds
  auto reader = std::async(std::launch::async, [&] { return io::content(pipe); });
  check_output(pipe);
  write_output(pipe, large);
  EXPECT_EQ(reader.get(), large);
  EXPECT_NE(io::message_of<UsageError>([&] { regular_output(pipe); }).find("a device or a pipe"), std::string::npos);
  EXPECT_TRUE(S_ISFIFO(mode_of(pipe)));
}

TEST_F(OutputFile, DevicesAreWrittenThrough) {
  const auto null = at("null"), full = at("full");
  if (::mknod(null.c_str(), S_IFCHR | 0666, ::makedev(1, 3)) != 0 ||
      ::mknod(full.c_str(), S_IFCHR | 0666, ::makedev(1, 7)) != 0)
    GTEST_SKIP() << "making devices needs root";
  if (const int tried = ::open(null.c_str(), O_WRONLY); tried < 0)
    GTEST_SKIP() << "devices don't work in the temporary folder";
  else
    ::close(tried);
  write_output(null, "gone");
  const auto said = io::message_of<Error>([&] { write_json(full, {{"a", 1}}); });
  EXPECT_NE(said.find("full\": No space left on device"), std::string::npos) << said;
  fs::create_symlink(full, at("link"));
  io::message_of<Error>([&] { write_output(at("link"), "x"); });
  EXPECT_TRUE(S_ISCHR(mode_of(null)) && S_ISCHR(mode_of(full)));
  EXPECT_EQ(names().size(), 3u);
}

// As `{ echo before; program --json /dev/fd/N; } N> file` does: opening it by name would begin the file anew.
TEST_F(OutputFile, OpenDescriptorsAreAppendedTo) {
  const auto file = here.write("file", "before\n");
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  for (const char* folder : {"/dev/fd/", "/proc/self/fd/"}) write_output(text(folder, descriptor), "after\n");
  ::close(descriptor);
  EXPECT_EQ(io::content(file), "before\nafter\nafter\n");
  EXPECT_NE(io::message_of<UsageError>([&] { check_output("/dev/fd/999"); }).find("Bad file descriptor"),
            std::string::npos);
}

}  // namespace
}  // namespace shade
