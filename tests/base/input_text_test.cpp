#include "shade/base/input_text.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "shade/base/error.h"
#include "tests/io/scratch.h"
#include "tests/support/fault.h"

namespace shade {
namespace {

TEST(InputText, IsARegularFileThatEnds) {
  const io::Scratch scratch;
  const auto file = scratch.path() / "file", pipe = scratch.path() / "pipe";
  io::write_file(file, "words");
  EXPECT_EQ(read_text(file, Bytes{5}), "words");
  EXPECT_NE(test::fault<Error>([&] { read_text(file, Bytes{4}); }).find("it has more than 4 B"), std::string::npos);
  EXPECT_NE(test::fault<Error>([&] { read_text(scratch.path() / "none", Bytes{4}); }).find("No such file"),
            std::string::npos);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(test::fault([&] { read_text(pipe, Bytes{4}); }),
            text("cannot read ", pipe, ": a device, pipe or socket; expected a regular file"));
  EXPECT_EQ(test::fault([&] { read_text(scratch.path(), Bytes{4}); }),
            text("cannot read ", scratch.path(), ": a folder; expected a file"));
  EXPECT_NE(test::fault([&] { read_text("/dev/zero", Bytes{4}); }), "no error");
}

TEST(InputText, MayBeAnOpenPipe) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ASSERT_EQ(::write(ends[1], "words", 5), 5);
  ::close(ends[1]);
  EXPECT_EQ(read_text(text("/dev/fd/", ends[0]), Bytes{5}), "words");
  ::close(ends[0]);
}

}  // namespace
}  // namespace shade
