// Cells of CSV files (RFC 4180).
#pragma once

#include <string>

namespace shade {

// Quoted if it has to be; control characters and line ends are made visible. A spreadsheet would run a cell that begins
// like a formula; behind an apostrophe it is text. Numbers stay numbers.
std::string csv_cell(const std::string& words);

}  // namespace shade
