#include "shade/base/csv.h"

#include <gtest/gtest.h>

namespace shade {
namespace {

TEST(Csv, CellsAreQuotedWhereTheyMustBe) {
  for (const auto& [words, cell] : {std::pair<std::string, std::string>{"", ""},
                                    {"llama3-8b", "llama3-8b"},
                                    {"two words", "two words"},
                                    {"a,b", "\"a,b\""},
                                    {"say \"no\"", "\"say \"\"no\"\"\""},
                                    {"a\\b", "a\\b"},
                                    {"1e-05", "1e-05"},
                                    {"two\nlines", "two\\x0alines"}})
    EXPECT_EQ(csv_cell(words), cell);
}

TEST(Csv, FormulasAreTextAndNumbersStayNumbers) {
  for (const auto& [words, cell] : {std::pair<std::string, std::string>{"=1+2", "'=1+2"},
                                    {"@cmd", "'@cmd"},
                                    {"-x", "'-x"},
                                    {"+A1,B1", "\"'+A1,B1\""},
                                    {"-1.5", "-1.5"},
                                    {"1.5", "1.5"}})
    EXPECT_EQ(csv_cell(words), cell);
}

}  // namespace
}  // namespace shade
