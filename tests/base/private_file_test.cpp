// Files that their owner alone may read, under every umask and in folders that others made.
#include "shade/base/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "shade/base/error.h"
#include "tests/io/scratch.h"

namespace shade {
namespace {

namespace fs = std::filesystem;

mode_t mode_of(const fs::path& file) {
  struct stat about{};
  return ::stat(file.c_str(), &about) == 0 ? about.st_mode & 07777 : 0;
}

class PrivateFile : public testing::TestWithParam<mode_t> {
 protected:
  PrivateFile() : before_(::umask(GetParam())) {}
  ~PrivateFile() override { ::umask(before_); }
  fs::path at(const char* name) const { return here_.path() / name; }

  io::Scratch here_;

 private:
  mode_t before_;
};
INSTANTIATE_TEST_SUITE_P(Umasks, PrivateFile, testing::Values(0, 022, 027, 077, 0177));

TEST_P(PrivateFile, HaveTheirModeFromTheBeginning) {
  NewFile file(at("new"), file_mode(Readers::owner));
  for (const auto& entry : fs::directory_iterator(here_.path())) EXPECT_EQ(mode_of(entry.path()), 0600u) << "temporary";
  file.commit();
  EXPECT_EQ(mode_of(at("new")), 0600u);
  make_file(at("by_name"), Readers::owner);
  EXPECT_EQ(mode_of(at("by_name")), 0600u);
  make_file(at("absent"), Readers::by_umask);
  EXPECT_FALSE(fs::exists(at("absent"))) << "left to whoever opens it";
}

TEST_P(PrivateFile, FoldersAreMadeAndClosed) {
  ::umask(GetParam() & ~mode_t{0700});  // parents by the umask must let us in
  make_folder(at("a/b/c/"), Readers::owner);
  make_folder(at("d"), Readers::owner);
  for (const auto* name : {"a/b/c", "d"}) EXPECT_EQ(mode_of(at(name)), 0700u) << name;
  EXPECT_EQ(mode_of(at("a/b")), 0777u & ~(GetParam() & ~mode_t{0700}));
  ::chmod(at("d").c_str(), 0755);
  EXPECT_TRUE(open_to_others(at("d")));
  make_folder(at("d"), Readers::owner);
  EXPECT_FALSE(open_to_others(at("d")));
  EXPECT_EQ(mode_of(at("d")), 0700u);
}

TEST_P(PrivateFile, OpenOnesAreClosedWithTheirContent) {
  const auto file = here_.write("old", "kept");
  ::chmod(file.c_str(), 0644);
  make_file(file, Readers::owner);
  EXPECT_EQ(mode_of(file), 0600u);
  EXPECT_EQ(io::content(file), "kept");
  ::chmod(file.c_str(), 0644);
  close_to_others(file);
  EXPECT_EQ(mode_of(file), 0600u);
  close_to_others(at("absent"));
}

TEST(PrivateFiles, LinksFifosAndDevicesAreRefusedAndKeepTheirMode) {
  const io::Scratch here;
  const auto target = here.write("target", ""), link = here.path() / "link", pipe = here.path() / "pipe",
             device = here.path() / "device";
  ::chmod(target.c_str(), 0644);
  fs::create_symlink(target, link);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0644), 0);
  for (const auto& file : {link, pipe}) EXPECT_THROW(make_file(file, Readers::owner), Error) << file;
  EXPECT_EQ(mode_of(target), 0644u);
  EXPECT_EQ(mode_of(pipe), 0644u);
  if (::mknod(device.c_str(), S_IFCHR, ::makedev(1, 3)) != 0) GTEST_SKIP() << "making devices needs root";
  ::chmod(device.c_str(), 0666);
  EXPECT_THROW(make_file(device, Readers::owner), Error);
  EXPECT_EQ(mode_of(device), 0666u);
}

}  // namespace
}  // namespace shade
