#include "shade/io/input_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "scratch.h"
#include "shade/base/error.h"
#include "shade/base/sanitizer.h"
#include "shade/hash/digest.h"
#include "shade/io/errors.h"

namespace shade::io {
namespace {

TEST(MappedFile, GivesTheBytes) {
  const Scratch scratch;
  const auto map = MappedFile::open(scratch.write("file", "some bytes"));
  EXPECT_EQ(words(map->bytes()), "some bytes");
}

// As sha256sum prints it: of no byte, of a few, and of more than are read at a time.
TEST(MappedFile, HasTheUsualSha256) {
  const Scratch scratch;
  const auto sum = [&](const std::string& content) {
    return hash::sha256_of(*MappedFile::open(scratch.write(text("of_", content.size()), content)));
  };
  EXPECT_EQ(sum(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sum("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sum(std::string((17 << 20) + 1, 'a')), "c7e5c1d2de8dee83aa2d9104e8d24ae1b2e7f5f125677609ddbeee7e9e5d991b");
}

TEST(MappedFile, WhatCantBeReadNowIsNotDamaged) {
  if (SHADE_SANITIZED) GTEST_SKIP() << "sanitizers open files of their own";
  const Scratch scratch;
  const auto path = scratch.write("file", "some bytes");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_THROW(MappedFile::open(path), UsageError);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  try {
    MappedFile::open(scratch.path() / "absent");
    FAIL();
  } catch (const UsageError&) {
    FAIL() << "a missing file is a fault of what it belongs to";
  } catch (const Error&) {
  }
}

TEST(MappedFile, StaysAsLongAsSomebodyHoldsIt) {
  const Scratch scratch;
  auto map = MappedFile::open(scratch.write("file", "some bytes"));
  const auto bytes = map->bytes();
  const auto holder = map;
  map.reset();
  std::filesystem::remove(holder->path());  // the name may go, the bytes don't
  EXPECT_EQ(words(bytes), "some bytes");
}

TEST(MappedFile, ReplacedByRenameKeepsTheOldBytes) {
  const Scratch scratch;
  const auto path = scratch.write("file", "old");
  const auto map = MappedFile::open(path);
  std::filesystem::rename(scratch.write("other", "new"), path);
  EXPECT_EQ(words(map->bytes()), "old");
  EXPECT_EQ(words(MappedFile::open(path)->bytes()), "new");
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  const Scratch scratch;
  EXPECT_TRUE(MappedFile::open(scratch.write("file", ""))->bytes().empty());
}

TEST(MappedFile, DroppedPagesLeaveTheProcessAndComeBack) {
  const Scratch scratch;
  const std::string content(40 * 4096 + 100, 'x');
  const auto map = MappedFile::open(scratch.write("file", content));
  const auto mapped_pages = [] {  // of files, in this process
    std::ifstream in("/proc/self/statm");
    int64_t size = 0, resident = 0, shared = 0;
    in >> size >> resident >> shared;
    return shared;
  };
  ASSERT_EQ(words(map->bytes()), content);
  const auto before = mapped_pages();
  map->drop(map->bytes().subspan(5));
  EXPECT_LE(mapped_pages(), before - 41);
  EXPECT_EQ(words(map->bytes()), content);
}

TEST(MappedFile, RefusesWhatIsNoFileAndNamesIt) {
  const Scratch scratch;
  const auto refused = [](const std::filesystem::path& path) {
    return message_of<FormatError>([&] { MappedFile::open(path); });
  };
  const auto missing = scratch.path() / "missing";
  EXPECT_EQ(refused(missing), text("cannot open ", missing, ": No such file or directory"));
  EXPECT_EQ(refused(scratch.path()), text("cannot read ", scratch.path(), ": expected a regular file, found a folder"));
  const auto pipe = scratch.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(refused(pipe), text("cannot read ", pipe, ": expected a regular file, found a device, pipe or socket"));
}

}  // namespace
}  // namespace shade::io
