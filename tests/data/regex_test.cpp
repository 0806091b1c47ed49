#include "shade/data/tokenizer/regex.h"

#include "folder.h"
#include "shade/io/errors.h"

namespace shade::data {
namespace {

using Pieces = std::vector<std::string>;

Pieces split(const char* pattern, std::string_view words) {
  Pieces out;
  Regex(pattern).split(words, [&](std::string_view piece) { out.emplace_back(piece); });
  return out;
}

TEST(Regex, WhatMatchesAndWhatLiesBetween) {
  EXPECT_EQ(split("b+", "abba b"), (Pieces{"a", "bb", "a ", "b"}));
  EXPECT_EQ(split("x", "abc"), (Pieces{"abc"}));
  EXPECT_EQ(split("x", ""), (Pieces{}));
  EXPECT_EQ(split("(?=b)", "abäb"), (Pieces{"a", "bä", "b"}));  // an empty match cuts
  EXPECT_EQ(split(R"((?i:'s|'ll)|\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+)", "It'S 12345  x'LL"),
            (Pieces{"It", "'S", " ", "123", "45", " ", " ", "x", "'LL"}));
}

TEST(Regex, SpacesAreUnicodes) {
  // 25 of them; U+180E, U+200B and U+FEFF are none.
  EXPECT_EQ(split(R"(\s)", "a\u1680b\u180Ec\u200Bd\uFEFFe\u3000").size(), 4U);
  EXPECT_EQ(split(R"(\S+)", "a\u180Eb c"), (Pieces{"a\u180Eb", " ", "c"}));
  EXPECT_EQ(split(R"([^\s]+)", "a\u180Eb c"), (Pieces{"a\u180Eb", " ", "c"}));
}

TEST(Regex, ClassesAreThoseOfUnicode16) {
  EXPECT_EQ(split(R"(\p{L}+)", "\U000105C0\U0002EBF0\U00031350a"), (Pieces{"\U000105C0\U0002EBF0\U00031350a"}));
  EXPECT_EQ(split(R"([^\p{L}\p{N}]+)", "\U00016D40!\U00016D70"), (Pieces{"\U00016D40", "!", "\U00016D70"}));
  EXPECT_EQ(split(R"(\P{L}+)", "a1!b"), (Pieces{"a", "1!", "b"}));
  EXPECT_EQ(split(R"(\p{M}+)", "a\u0301\u0897b"), (Pieces{"a", "\u0301\u0897", "b"}));
}

TEST(Regex, WhatMeansSomethingElseIsRefused) {
  for (const char* pattern :
       {"^a",      "a$",      "a.b",     R"(\w+)", R"(\d)",   R"(\ba)",     R"(\1)",      R"(a{1,2}+)", "a{,2}",
        "[a[b]]",  "[a&&b]",  "[]a]",    "[^]]",   R"([\S])", R"([\P{L}])", R"(\p{Han})", R"(\pL)",     R"(\p{L)",
        "(?<n>a)", "(?<=a)b", "(*UTF)a", "a\\",    "[a",      "a#",         "\\\xC3\xA9"})
    EXPECT_NE(message_of<io::FormatError>([&] { Regex one(pattern); }).find("which is not read here"),
              std::string::npos)
        << pattern;
  for (const char* pattern : {"a*", "", "a|", "(?=a)?"})
    EXPECT_NE(message_of<io::FormatError>([&] { Regex one(pattern); }).find("matches the empty text"),
              std::string::npos)
        << pattern;
  for (const char* pattern : {"(a", "a)", "*a", "[z-a]"})
    EXPECT_NE(message_of<io::FormatError>([&] { Regex one(pattern); }).find("is not one"), std::string::npos)
        << pattern;
  EXPECT_EQ(message_of<io::FormatError>([&] { Regex one("\xC3"); }), "the pattern is not UTF-8 at byte 0");
}

TEST(Regex, AnEndlessPatternIsStopped) {
  const Regex slow("(a+)+[bc]");
  EXPECT_NE(message_of<Error>([&] {
              slow.split(std::string(100, 'a'), [](std::string_view) {});
            }).find("a text of 100 bytes could not be cut"),
            std::string::npos);
}

}  // namespace
}  // namespace shade::data
