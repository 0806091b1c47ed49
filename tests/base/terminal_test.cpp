#include "shade/base/terminal.h"

#include <gtest/gtest.h>

#include "shade/base/error.h"

namespace shade {
namespace {

TEST(Table, NumbersAlignRightWordsLeft) {
  Table table({"name", "time"});
  table.add({"all_gather", "12.3 ms"});
  table.add({"x", "4 ms"});
  EXPECT_EQ(table.str(),
            "name           time\n"
            "all_gather  12.3 ms\n"
            "x              4 ms\n");
  EXPECT_THROW(table.add({"too few"}), Error);
}

TEST(Colour, OnlyOnATerminal) {
  std::FILE* file = std::tmpfile();
  EXPECT_EQ(coloured("words", Colour::red, file), "words");
  std::fclose(file);
}

}  // namespace
}  // namespace shade
