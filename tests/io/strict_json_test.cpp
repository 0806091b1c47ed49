// What the corpus of safetensors files can't reach: depth, and values the header never has.
#include "shade/io/strict_json.h"

#include <gtest/gtest.h>

#include "scratch.h"
#include "shade/io/errors.h"

namespace shade::io {
namespace {

// Prints the calls it gets.
class Printer final : public JsonVisitor {
 public:
  void key(std::string_view name) override { calls += text(name, "="); }
  void value(const JsonValue& value) override {
    calls += value.kind == JsonKind::string ? std::string(value.string) : value.describe();
    calls += ";";
  }
  void close() override { calls += "close;"; }
  std::string calls;
};

std::string calls(std::string_view json) {
  Printer printer;
  read_strict_json(json, "text", printer);
  return printer.calls;
}

std::string refused(std::string_view json) {
  return message_of<FormatError>([&] { calls(json); });
}

TEST(StrictJson, TellsValuesInOrder) {
  EXPECT_EQ(calls(R"({"a":[1,-2,3.5,true,null,"s",{}],"b":18446744073709551615})"),
            "an object;a=an array;the number 1;a number with a minus sign;a number that is not whole or not below 2^64;"
            "a boolean;null;s;an object;close;close;b=the number 18446744073709551615;close;");
}

TEST(StrictJson, DepthIsLimited) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW(calls(nested(kMaxJsonDepth)));
  EXPECT_EQ(refused(nested(kMaxJsonDepth + 1)), "the text nests deeper than 32 levels");
  EXPECT_EQ(refused(std::string(1'000'000, '[')), "the text nests deeper than 32 levels");
}

TEST(StrictJson, AKeyTwiceIsFoundAtAnyDepthAndOnlyWithinOneObject) {
  EXPECT_NO_THROW(calls(R"({"a":{"a":[{"a":1},{"a":2}]}})"));
  EXPECT_EQ(refused(R"({"a":{"b":{"c":1,"c":2}}})"), "the text has the key 'c' twice in 'b'");
  EXPECT_EQ(refused(R"({"a":1,"b":{},"a":2})"), "the text has the key 'a' twice");
}

TEST(StrictJson, RefusesWhatNlohmannLooksOver) {
  EXPECT_EQ(refused("\xEF\xBB\xBF{}"), "the text begins with a byte order mark, which JSON forbids");
  EXPECT_EQ(refused(std::string_view("{}\0x", 4)), "the text has a NUL at byte 2, which JSON allows nowhere");
  EXPECT_EQ(refused(""), "the text is not valid JSON at byte 0, after ''");
}

TEST(UntrustedText, Utf8IsCheckedAtItsBorders) {
  for (const char* good :
       {"", "a", "\x7f", "\u0080", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"})
    EXPECT_FALSE(first_not_utf8(good)) << quote(good);
  for (const char* bad :
       {"\x80", "\xbf", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc2", "\xe1\x80", "\xf1\x80\x80", "\xc2 "})
    EXPECT_EQ(first_not_utf8(bad), 0U) << quote(bad);
  EXPECT_EQ(first_not_utf8("ok\xff"), 2U);
}

TEST(UntrustedText, QuoteCutsBetweenCharacters) {
  EXPECT_EQ(quote(std::string(48, 'x')), "'" + std::string(48, 'x') + "'");
  EXPECT_EQ(quote(std::string(49, 'x')), "'" + std::string(48, 'x') + "...'");
  EXPECT_EQ(quote(std::string(47, 'x') + "\u00e9"), "'" + std::string(47, 'x') + "...'");
}

}  // namespace
}  // namespace shade::io
