// A row of a file as fields by name, before it becomes a record: a line of .jsonl, an element of .json, a line of .csv,
// a row of .parquet and .arrow; a text of .txt is a row with the one field "text".
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>

#include "shade/data/record.h"

namespace shade::data {

enum class CellKind { null, string, integer, messages, other };

struct Cell {
  std::string name;
  CellKind kind = CellKind::other;
  std::string text;                 // of a string; of an integer, which is not negative, its digits
  std::vector<Message> messages{};  // of messages
  std::string found;                // of null and other: what is there, for "expected a string, found ..."
};

struct Row {
  std::vector<Cell> cells;  // in the file's order; no two have one name
  int64_t line = 1;         // of the file, where the row begins; of .parquet and .arrow, the row's number, from 1

  Cell* find(std::string_view name) {
    const auto found = std::find_if(cells.begin(), cells.end(), [&](const Cell& cell) { return cell.name == name; });
    return found == cells.end() ? nullptr : &*found;
  }
};

// Names of the fields whose values are read. Of others only the names are known. Unset: all are read.
using Wanted = std::optional<std::vector<std::string>>;

inline bool is_wanted(const Wanted& wanted, std::string_view name) {
  return !wanted || std::find(wanted->begin(), wanted->end(), name) != wanted->end();
}

// The keys of a message: role and content, or ShareGPT's from and value.
inline bool is_role_key(std::string_view key) { return key == "role" || key == "from"; }
inline bool is_content_key(std::string_view key) { return key == "content" || key == "value"; }
// Keys that chat templates of transformers write into the text and those here don't: refused, unless they are empty.
inline bool is_unwritten_key(std::string_view key) { return key == "tool_calls" || key == "reasoning_content"; }

// The rows of one file, in its order.
class RowReader {
 public:
  virtual ~RowReader() = default;

  // The next row, which is the reader's own until the next call: a caller may move texts out of it. Null at the end.
  // Throws io::FormatError naming the file and the place in it.
  virtual Row* next() = 0;
  virtual uint64_t position() const = 0;  // bytes of the file that were read, for progress
};

}  // namespace shade::data
