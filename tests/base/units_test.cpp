#include "shade/base/units.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "shade/base/error.h"

namespace shade {
namespace {

TEST(Units, SizesAreRead) {
  EXPECT_EQ(parse_bytes("64MiB"), MiB(64));
  EXPECT_EQ(parse_bytes("1.5 GiB").count, 3LL << 29);
  EXPECT_EQ(parse_bytes("4096").count, 4096);
  EXPECT_EQ(parse_bytes("2GB").count, 2'000'000'000);
  const std::vector<std::pair<const char*, int64_t>> units{{"B", 1},         {"kB", 1'000},
                                                           {"KB", 1'000},    {"MB", 1'000'000},
                                                           {"KiB", 1 << 10}, {"GB", 1'000'000'000},
                                                           {"MiB", 1 << 20}, {"TB", 1'000'000'000'000},
                                                           {"GiB", 1 << 30}, {"TiB", int64_t{1} << 40}};
  for (const auto& [unit, factor] : units) {
    EXPECT_EQ(parse_bytes(text("3", unit)).count, 3 * factor) << unit;
    EXPECT_EQ(parse_bytes(text("3 ", unit)).count, 3 * factor) << unit;
  }
  for (const char* bad : {"", "MiB", "64M", "-1MiB", "1e30GiB", "nan", "64 parsecs", "1..2MB"})
    EXPECT_THROW(parse_bytes(bad), UsageError) << bad;
}

TEST(Units, AFaultNamesTheWordAndAnExample) {
  try {
    parse_bytes("64M");
    FAIL();
  } catch (const UsageError& fault) {
    EXPECT_STREQ(fault.what(), "'64M' is not a size; expected for example 64MiB, 1.5GiB or 4096");
  }
}

TEST(Units, TimesAreRead) {
  EXPECT_EQ(parse_seconds("10s"), Seconds(10));
  EXPECT_EQ(parse_seconds("500ms"), Seconds(0.5));
  EXPECT_EQ(parse_seconds("2min"), Seconds(120));
  EXPECT_THROW(parse_seconds("soon"), UsageError);
}

TEST(Units, PrintedForPeople) {
  EXPECT_EQ(to_string(MiB(64)), "64.0 MiB");
  EXPECT_EQ(to_string(Bytes{17}), "17 B");
  EXPECT_EQ(to_string(GiB(3)), "3.00 GiB");
  EXPECT_EQ(to_string(Seconds(0.0123)), "12.3 ms");
  EXPECT_EQ(to_string(Seconds(4.56)), "4.56 s");
  EXPECT_EQ(to_string(Seconds(200)), "3 min 20 s");
  EXPECT_EQ(to_string(Seconds(7260)), "2 h 1 min");
  EXPECT_EQ(to_string_bandwidth(Bytes{2'410'000'000}, Seconds(1)), "2.41 GB/s");
  EXPECT_EQ(significant(0), "0");
}

TEST(Units, NumbersHaveOneStyle) {
  EXPECT_EQ(significant(12345.6), "12300");
  EXPECT_EQ(significant(9.996), "10.0") << "rounded before its digits are counted";
  EXPECT_EQ(significant(0.0451), "0.0451");
  EXPECT_EQ(significant(0.00123), "0.00123");
  EXPECT_EQ(significant(1.3e-6), "1.30e-06");
  EXPECT_EQ(significant(1.9e-7, 2), "1.9e-07");
  EXPECT_EQ(significant(-1.5), "-1.50");
  EXPECT_EQ(percent(0.00082), "0 %");
  EXPECT_EQ(percent(0.081), "0.08 %");
  EXPECT_EQ(percent(12.34), "12.3 %");
  EXPECT_EQ(signed_percent(0.00082), "0 %");
  EXPECT_EQ(signed_percent(-0.00082), "0 %");
  EXPECT_EQ(signed_percent(4), "+4.00 %");
  EXPECT_EQ(signed_percent(-123.4), "-123 %");
}

TEST(Units, WholeBytesSurviveText) {
  EXPECT_TRUE(rc::check([](uint32_t count) { RC_ASSERT(parse_bytes(std::to_string(count)).count == count); }));
}

}  // namespace
}  // namespace shade
