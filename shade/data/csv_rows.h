// The rows of a .csv file by RFC 4180: a header row, commas, quotes around fields with commas, quotes or line breaks,
// quotes doubled inside. UTF-8; a byte order mark is skipped, lines end in "\n" or "\r\n", empty lines are skipped.
//
// A reader of our own rather than Arrow's: it needs no library, holds one row, and every fault names its line. Arrow's
// reads blocks, guesses column types from the first of them, and counts rows in a block.
//
// Strict, because two programs that repair a broken file differently train on different records: a quote inside an
// unquoted field, text after a closing quote, a row with more or fewer fields than the header are refused.
#pragma once

#include <memory>

#include "shade/data/row.h"
#include "shade/data/text_files.h"

namespace shade::data {

// All cells are strings; one without any character, not even quotes, is null: CSV has no other word for it.
std::unique_ptr<RowReader> open_csv_rows(const TextFile& file, const Wanted& wanted);

}  // namespace shade::data
