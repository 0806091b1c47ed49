#include "shade/data/csv_rows.h"

#include <set>

#include "shade/base/error.h"
#include "shade/data/byte_source.h"
#include "shade/data/rows.h"
#include "shade/io/strict_json.h"

namespace shade::data {
namespace {

constexpr size_t kMaxColumns = 10'000;

class CsvRows final : public RowReader {
 public:
  CsvRows(const TextFile& file, const Wanted& wanted) : in_(file.path, file.compression) {
    if (in_.rest().starts_with("\xEF\xBB\xBF")) in_.take(3);
    read_header(wanted);
  }

  Row* next() override {
    if (!begin_row()) return nullptr;
    for (size_t column = 0; column < row_.cells.size(); ++column) {
      auto& cell = row_.cells[column];
      cell.text.clear();
      const auto read = read_cell(kept_[column] ? &cell.text : nullptr);
      if (kept_[column]) {
        check_utf8(in_.path(), cell_line_, cell.text);
        cell.kind = read.quoted || !cell.text.empty() ? CellKind::string : CellKind::null;
      }
      if (read.last != (column + 1 == row_.cells.size())) refuse_length(column + 1, read.last);
    }
    return &row_;
  }

  uint64_t position() const override { return in_.position(); }

 private:
  struct CellEnd {
    bool quoted = false, last = false;  // last: of its row
  };

  // Skips empty lines; false at the end of the file.
  bool begin_row() {
    while (peek() == '\n' || peek() == '\r') {
      if (peek() == '\r') take_carriage_return();
      if (peek() == '\n') in_.take(1);
    }
    row_.line = in_.line();
    row_bytes_ = 0;
    return !in_.rest().empty();
  }

  void read_header(const Wanted& wanted) {
    if (!begin_row()) fail_at(in_.path(), 1, "the file is empty; expected a header row with the names of the fields");
    std::set<std::string> seen;
    for (bool last = false; !last;) {
      Cell cell{.name = "", .kind = CellKind::other, .found = "an empty cell"};
      last = read_cell(&cell.name).last;
      check_utf8(in_.path(), cell_line_, cell.name);
      if (cell.name.empty())
        fail_at(in_.path(), row_.line, text("field ", row_.cells.size() + 1, " of the header has no name"));
      if (!seen.insert(cell.name).second)
        fail_at(in_.path(), row_.line, text("the header has the field ", io::quote(cell.name), " twice"));
      if (row_.cells.size() == kMaxColumns)
        fail_at(in_.path(), row_.line, text("the header has more than ", kMaxColumns, " fields"));
      kept_.push_back(is_wanted(wanted, cell.name));
      row_.cells.push_back(std::move(cell));
    }
    if (row_.cells.size() == 1 && row_.cells[0].name.find_first_of(";\t|") != std::string::npos)
      fail_at(
          in_.path(), row_.line,
          text("the header has one field, ", io::quote(row_.cells[0].name), "; fields must be separated by commas"));
  }

  // Appends the cell to `words`, if they are wanted, and takes the comma or the line's end after it.
  CellEnd read_cell(std::string* words) {
    cell_line_ = in_.line();
    CellEnd end{.quoted = peek() == '"'};
    if (end.quoted) {
      in_.take(1);
      read_quoted(words);
    } else {
      read_unquoted(words);
    }
    const auto c = peek();
    if (c == '\r') {
      take_carriage_return();
    } else if (end.quoted && c != ',' && c != '\n' && !in_.rest().empty()) {
      fail_at(in_.path(), in_.line(),
              text("after a closing quote there is ", io::quote(in_.rest().substr(0, 1)),
                   "; expected a comma or the end of the line (quotes inside a field are doubled)"));
    }
    end.last = peek() != ',';
    if (!in_.rest().empty()) in_.take(1);
    return end;
  }

  void take_carriage_return() {
    in_.take(1);
    if (peek() != '\n' && !in_.rest().empty())
      fail_at(in_.path(), in_.line(), "a carriage return without a line feed; end lines with \\n or \\r\\n");
  }

  void read_quoted(std::string* words) {
    while (true) {
      const auto part = in_.rest();
      if (part.empty())
        fail_at(in_.path(), cell_line_, "a quoted field that has no closing quote; is the file complete?");
      const auto quote = part.find('"');
      append(words, part.substr(0, quote));
      if (quote == part.npos) continue;
      in_.take(1);
      if (peek() != '"') return;
      append(words, "\"");
    }
  }

  void read_unquoted(std::string* words) {
    for (auto part = in_.rest(); !part.empty(); part = in_.rest()) {
      const auto end = part.find_first_of(",\r\n\"");
      append(words, part.substr(0, end));
      if (end == part.npos) continue;
      if (peek() == '"')
        fail_at(in_.path(), in_.line(),
                "a quote inside a field that is not quoted; put the field into quotes and double those in it");
      return;
    }
  }

  // Appends what lies at the reader's place, and takes it.
  void append(std::string* words, std::string_view part) {
    row_bytes_ += part.size();
    if (row_bytes_ > static_cast<size_t>(kMaxRow.count))
      fail_at(in_.path(), row_.line, text("a row of more than ", to_string(kMaxRow), "; is a quote missing?"));
    if (part.find('\0') != part.npos)
      fail_at(in_.path(), in_.line(), "a NUL byte; is the file UTF-16? Convert it, e.g. with iconv -f UTF-16 -t UTF-8");
    if (words != nullptr) words->append(part);
    in_.take(part.size());
  }

  [[noreturn]] void refuse_length(size_t fields, bool fewer) const {
    fail_at(in_.path(), row_.line,
            text("the row has ", fewer ? "" : "more than ", fields, fields == 1 ? " field" : " fields",
                 "; the header has ", row_.cells.size(), " (", io::quote(row_.cells.back().name), " is the last)"));
  }

  char peek() {
    const auto part = in_.rest();
    return part.empty() ? '\0' : part.front();
  }

  BlockReader in_;
  Row row_;
  std::vector<bool> kept_;  // by column
  int64_t cell_line_ = 1;
  size_t row_bytes_ = 0;
};

}  // namespace

std::unique_ptr<RowReader> open_csv_rows(const TextFile& file, const Wanted& wanted) {
  return std::make_unique<CsvRows>(file, wanted);
}

}  // namespace shade::data
