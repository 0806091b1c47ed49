#include "shade/base/terminal.h"

#include <gtest/gtest.h>

#include <thread>

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

// A text that a terminal would show in another order than it has is as misleading as one that moves its cursor.
TEST(VisibleText, ShowsWhatReordersText) {
  for (const std::string hidden :
       {"\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069", "\u200e", "\u200f",
        "\u061c", "\u2028", "\u2029", "\xc2\x80", "\xc2\x9f"}) {
    const auto shown = visible("a" + hidden + "b");
    EXPECT_EQ(shown.find(hidden), std::string::npos) << shown;
    EXPECT_EQ(shown.size(), 2 + 4 * hidden.size()) << shown;
  }
  EXPECT_EQ(visible("model\u202egnp.exe"), "model\\xe2\\x80\\xaegnp.exe");
  // Their neighbours are letters, or join them.
  for (const std::string letter :
       {"\u200c", "\u200d", "\u2010", "\u2030", "\u2065", "\u206a", "\u061b", "\u061d", "\u05d0", "\u0627", "\u00a0"})
    EXPECT_EQ(visible(letter), letter);
}

TEST(Progress, ShowsControlCharactersAndWhatIsLeft) {
  testing::internal::CaptureStderr();
  {
    Progress progress("reading \x1b[2J", 10), last("last", 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(2050));  // in a log the first line comes after two seconds
    progress.advance("file \x1b]0;owned\x07");
    last.advance("");
  }
  const auto shown = testing::internal::GetCapturedStderr();
  EXPECT_EQ(shown.find_first_of("\x1b\x07"), std::string::npos) << shown;
  EXPECT_NE(shown.find("reading \\x1b[2J"), std::string::npos) << shown;
  EXPECT_NE(shown.find("file \\x1b]0;owned\\x07"), std::string::npos) << shown;
  EXPECT_NE(shown.find("1 of 10, 18"), std::string::npos) << shown;
  EXPECT_NE(shown.find("last: 1 of 1\n"), std::string::npos) << "nothing is left, and nothing is said of it: " << shown;
}

TEST(Colour, OnlyOnATerminal) {
  std::FILE* file = std::tmpfile();
  EXPECT_EQ(coloured("words", Colour::red, file), "words");
  std::fclose(file);
}

}  // namespace
}  // namespace shade
