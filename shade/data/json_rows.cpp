#include "shade/data/json_rows.h"

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/data/byte_source.h"
#include "shade/data/rows.h"
#include "shade/io/errors.h"
#include "shade/io/strict_json.h"

namespace shade::data {
namespace {

// The elements of a JSON file that is one value or an array of values, cut out one at a time.
//
// Only brackets and strings are looked at: whether an element is JSON is for its reader to say. What lies between the
// elements is checked here.
class JsonElements {
 public:
  // Elements larger than `limit` are a FormatError that says `advice`.
  JsonElements(BlockReader& in, Bytes limit, std::string_view advice) : in_(in), limit_(limit), advice_(advice) {}

  bool next(std::string& json);           // false at the end of the file
  int64_t line() const { return line_; }  // of the last element's first byte

 private:
  char skip_space();  // the next byte that is not space, not taken; 0 at the end
  void cut(std::string& json);

  BlockReader& in_;
  Bytes limit_;
  std::string_view advice_;
  bool array_ = false;
  bool begun_ = false;
  int64_t count_ = 0;
  int64_t line_ = 1;
};

bool is_json_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Follows an element byte by byte and knows when it is over.
class Extent {
 public:
  // True if `c` still belongs to the element.
  bool feed(char c) {
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
      }
      return true;
    }
    if (depth_ == 0 && (c == ',' || c == ']')) return false;
    if (c == '"') in_string_ = true;
    if (c == '{' || c == '[') ++depth_;
    if (c == '}' || c == ']') --depth_;
    return true;
  }

 private:
  int64_t depth_ = 0;
  bool in_string_ = false, escaped_ = false;
};

char JsonElements::skip_space() {
  for (auto part = in_.rest(); !part.empty(); part = in_.rest()) {
    size_t spaces = 0;
    while (spaces < part.size() && is_json_space(part[spaces])) ++spaces;
    in_.take(spaces);
    if (spaces < part.size()) return part[spaces];
  }
  return 0;
}

void JsonElements::cut(std::string& json) {
  json.clear();
  Extent extent;
  for (auto part = in_.rest(); !part.empty(); part = in_.rest()) {
    size_t length = 0;
    while (length < part.size() && (extent.feed(part[length]) || !array_)) ++length;
    json.append(part.substr(0, length));
    if (json.size() > static_cast<size_t>(limit_.count))
      fail_at(in_.path(), line_, text("a record of more than ", to_string(limit_), "; ", advice_));
    const bool over = length < part.size();
    in_.take(length);
    if (over) return;
  }
}

bool JsonElements::next(std::string& json) {
  auto c = skip_space();
  if (!begun_) {
    begun_ = true;
    if (c == 0) fail_at(in_.path(), in_.line(), "the file is empty; expected an object or an array of objects");
    if (c == '[') {
      array_ = true;
      in_.take(1);
      c = skip_space();
    } else {
      line_ = in_.line();
      cut(json);
      return true;
    }
  }
  if (!array_) return false;
  if (c == ']') {
    in_.take(1);
    array_ = false;
    if (skip_space() != 0) fail_at(in_.path(), in_.line(), "there is more after the array's end");
    return false;
  }
  if (c == 0) fail_at(in_.path(), in_.line(), "the array has no end; is the file complete?");
  if (count_++ > 0) {  // an element ends before ',' or ']' only
    in_.take(1);
    skip_space();
  }
  line_ = in_.line();
  cut(json);
  return true;
}

constexpr const char* kCutRecords = "cut this text into smaller records";

// An object's fields become cells. Depth 1 is in the object, 2 in a list of messages, 3 in a message.
class ObjectReader final : public io::JsonVisitor {
 public:
  ObjectReader(const Wanted& wanted, Row& row) : wanted_(wanted), row_(row) { row_.cells.clear(); }

  void key(std::string_view name) override {
    key_ = name;
    if (depth_ == 1) row_.cells.push_back({.name = std::string(name)});
  }

  void value(const io::JsonValue& value) override {
    if (depth_ == 0 && value.kind != io::JsonKind::object)
      throw io::FormatError(text("expected an object, found ", value.describe()));
    if (depth_ == 1) read_cell(value);
    if (depth_ == 2 && reading_) begin_message(value);
    if (depth_ == 3 && reading_) read_message(value);
    if (depth_ == 4 && reading_ && unwritten_) fail_unwritten();
    if (value.kind == io::JsonKind::array || value.kind == io::JsonKind::object) ++depth_;
  }

  void close() override {
    --depth_;
    if (depth_ == 1) reading_ = false;
    if (depth_ == 2 && reading_) end_message();
  }

 private:
  void read_cell(const io::JsonValue& value) {
    auto& cell = row_.cells.back();
    cell.found = value.describe();
    reading_ = false;
    if (value.kind == io::JsonKind::null) cell.kind = CellKind::null;
    if (!is_wanted(wanted_, cell.name)) return;
    if (value.kind == io::JsonKind::string) {
      cell.kind = CellKind::string;
      cell.text = value.string;
    } else if (value.kind == io::JsonKind::integer) {
      cell.kind = CellKind::integer;
      cell.text = std::to_string(value.integer);
    } else if (value.kind == io::JsonKind::array) {
      cell.kind = CellKind::messages;
      reading_ = true;
    }
  }

  void begin_message(const io::JsonValue& value) {
    auto& messages = row_.cells.back().messages;
    if (value.kind != io::JsonKind::object) return no_messages(messages.size() + 1, text("is ", value.describe()));
    messages.emplace_back();
    has_role_ = has_content_ = false;
  }

  void read_message(const io::JsonValue& value) {
    auto& message = row_.cells.back().messages.back();
    const bool role = is_role_key(key_), content = is_content_key(key_);
    unwritten_ = is_unwritten_key(key_);
    if (unwritten_ && !value.string.empty()) return fail_unwritten();
    if (!role && !content) return;
    if (value.kind != io::JsonKind::string)
      return fail_message(text("has a ", io::quote(key_), " that is ", value.describe()));
    (role ? message.role : message.content) = value.string;
    (role ? has_role_ : has_content_) = true;
  }

  void end_message() {
    if (!has_role_) return fail_message("has no 'role'");
    if (!has_content_) return fail_message("has no 'content'");
  }

  void fail_message(const std::string& what) { no_messages(row_.cells.back().messages.size(), what); }

  void fail_unwritten() { fail_message("has tool calls or reasoning besides its content, which are not supported"); }

  void no_messages(size_t element, const std::string& what) {
    auto& cell = row_.cells.back();
    cell.kind = CellKind::other;
    cell.found = text("an array whose element ", element, " ", what);
    cell.messages.clear();
    reading_ = false;
  }

  const Wanted& wanted_;
  Row& row_;
  int depth_ = 0;
  std::string key_;
  bool reading_ = false;  // the list of messages that the last cell is
  bool has_role_ = false, has_content_ = false;
  bool unwritten_ = false;  // the value being read is one of a message that no template here writes
};

class JsonRows : public RowReader {
 public:
  JsonRows(const TextFile& file, const Wanted& wanted) : in_(file.path, file.compression), wanted_(wanted) {}

  uint64_t position() const override { return in_.position(); }

 protected:
  Row* parse(int64_t line) {
    row_.line = line;
    ObjectReader reader(wanted_, row_);
    try {
      io::read_strict_json(json_, "record", reader);
    } catch (const io::FormatError& fault) {
      fail_at(in_.path(), line, fault.what());
    }
    return &row_;
  }

  BlockReader in_;
  std::string json_;

 private:
  Wanted wanted_;
  Row row_;
};

class JsonLines final : public JsonRows {
 public:
  using JsonRows::JsonRows;

  Row* next() override {
    for (auto at = in_.line(); in_.next_line(json_, kMaxRow, kCutRecords); at = in_.line())
      if (!trim(json_).empty()) return parse(at);
    return nullptr;
  }
};

class JsonArray final : public JsonRows {
 public:
  JsonArray(const TextFile& file, const Wanted& wanted)
      : JsonRows(file, wanted), elements_(in_, kMaxRow, kCutRecords) {}

  Row* next() override { return elements_.next(json_) ? parse(elements_.line()) : nullptr; }

 private:
  JsonElements elements_;
};

}  // namespace

std::unique_ptr<RowReader> open_json_rows(const TextFile& file, const Wanted& wanted) {
  if (file.format == TextFormat::jsonl) return std::make_unique<JsonLines>(file, wanted);
  return std::make_unique<JsonArray>(file, wanted);
}

}  // namespace shade::data
