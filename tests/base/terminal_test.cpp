#include "shade/base/terminal.h"

#include <gtest/gtest.h>

#include "shade/base/error.h"
#include "shade/base/visible_text.h"

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

TEST(Table, ControlCharactersOfCellsAreShown) {
  Table table({"name", "time"});
  table.add({"\x1b[31ma\n\r\xff", "1 ms"});
  EXPECT_NE(table.str().find("\\x1b[31ma\\x0a\\x0d\\xff  1 ms\n"), std::string::npos) << table.str();
}

TEST(VisibleText, KeepsLettersAndLinesAndShowsTheRest) {
  EXPECT_EQ(visible("\u00e9\u4e2d\U0001f600 a\tb\n\x7f\xc2\x9b"), "\u00e9\u4e2d\U0001f600 a\\x09b\\x0a\\x7f\\xc2\\x9b");
  EXPECT_EQ(visible("abc\u00e9", 4), "abc...") << "no half characters";
  EXPECT_EQ(visible("abc\u00e9", 5), "abc\u00e9");
  EXPECT_EQ(visible_lines("a\n\x1b[2J\n\nb\r\n"), "a\n\\x1b[2J\n\nb\\x0d\n");
}

TEST(Colour, OnlyOnATerminal) {
  std::FILE* file = std::tmpfile();
  EXPECT_EQ(coloured("words", Colour::red, file), "words");
  std::fclose(file);
}

}  // namespace
}  // namespace shade
