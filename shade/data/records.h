// The records of a text file, one at a time.
//
//   .jsonl   a record per line: {"text": "...", "label": "sports"}; label is optional, a string or a whole number
//   .json    one such object, or an array of them
//   .txt     the whole file, or each paragraph (blank lines between), or each line
//
// Never more than one record and a buffer are in memory, whatever the file's size. Files are untrusted: text must
// be UTF-8, JSON is read strictly, and a fault names file and line.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "shade/base/units.h"
#include "shade/data/text_files.h"

namespace shade::data {

enum class TextUnit { file, paragraph, line };
inline std::span<const Name<TextUnit>> names_of(TextUnit) {
  static constexpr Name<TextUnit> kNames[] = {
      {"file", TextUnit::file}, {"paragraph", TextUnit::paragraph}, {"line", TextUnit::line}};
  return kNames;
}

inline constexpr Bytes kMaxRecord = MiB(64);

struct Record {
  std::string text;
  std::optional<std::string> label;  // a number as its digits
  int64_t line = 1;                  // of the file, where the record begins
};

// Called in the order of the file; false stops. Also called for records whose text is empty.
using RecordVisitor = std::function<bool(Record&&)>;

// False if the visitor stopped. Throws io::FormatError naming file and line: not UTF-8, not JSON, no "text", larger
// than kMaxRecord.
bool read_records(const TextFile& file, TextUnit unit, const RecordVisitor& visitor);

}  // namespace shade::data
