#include "shade/data/records.h"

#include <algorithm>
#include <utility>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/data/block_reader.h"
#include "shade/data/json_elements.h"
#include "shade/io/errors.h"
#include "shade/io/strict_json.h"
#include "shade/io/untrusted_text.h"

namespace shade::data {
namespace {

constexpr const char* kSplitText = "cut it with --text-unit paragraph or line, or into smaller files";
constexpr const char* kSplitJson = "cut this text into smaller records";

// {"text": ..., "label": ...}; other keys are skipped.
class ObjectReader final : public io::JsonVisitor {
 public:
  void key(std::string_view name) override {
    if (depth_ == 1) key_ = name;
  }

  void value(const io::JsonValue& value) override {
    if (depth_ == 0 && value.kind != io::JsonKind::object)
      throw io::FormatError(text("expected an object with a \"text\", found ", value.describe()));
    if (depth_ == 1 && key_ == "text") read_text(value);
    if (depth_ == 1 && key_ == "label") read_label(value);
    if (value.kind == io::JsonKind::array || value.kind == io::JsonKind::object) ++depth_;
  }

  void close() override { --depth_; }

  Record take(int64_t line) {
    if (!has_text_) throw io::FormatError("the object has no \"text\"");
    record_.line = line;
    return std::move(record_);
  }

 private:
  void read_text(const io::JsonValue& value) {
    if (value.kind != io::JsonKind::string)
      throw io::FormatError(text("\"text\" must be a string, found ", value.describe()));
    record_.text = value.string;
    has_text_ = true;
  }

  void read_label(const io::JsonValue& value) {
    if (value.kind == io::JsonKind::null) return;
    if (value.kind == io::JsonKind::string) {
      record_.label = value.string;
    } else if (value.kind == io::JsonKind::integer) {
      record_.label = std::to_string(value.integer);
    } else {
      throw io::FormatError(text("\"label\" must be a string or a whole number from 0, found ", value.describe()));
    }
  }

  int depth_ = 0;
  std::string key_;
  bool has_text_ = false;
  Record record_;
};

Record parse_record(const std::filesystem::path& path, int64_t line, std::string_view json) {
  try {
    ObjectReader reader;
    io::read_strict_json(json, "record", reader);
    return reader.take(line);
  } catch (const io::FormatError& fault) {
    fail_at(path, line, fault.what());
  }
}

bool is_blank(std::string_view words) { return trim(words).empty(); }

bool read_jsonl(BlockReader& in, const RecordVisitor& visitor) {
  std::string line;
  for (auto at = in.line(); in.next_line(line, kMaxRecord, kSplitJson); at = in.line())
    if (!is_blank(line) && !visitor(parse_record(in.path(), at, line))) return false;
  return true;
}

bool read_json_file(BlockReader& in, const RecordVisitor& visitor) {
  JsonElements elements(in, kMaxRecord, kSplitJson);
  std::string json;
  while (elements.next(json))
    if (!visitor(parse_record(in.path(), elements.line(), json))) return false;
  return true;
}

void check_utf8(const std::filesystem::path& path, int64_t line, std::string_view words) {
  const auto at = io::first_not_utf8(words);
  if (!at) return;
  line += std::count(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(*at), '\n');
  fail_at(path, line, "the text is not UTF-8; convert the file, e.g. with iconv -t UTF-8");
}

bool read_whole(BlockReader& in, const RecordVisitor& visitor) {
  Record record;
  for (auto part = in.rest(); !part.empty(); part = in.rest()) {
    record.text.append(part);
    if (record.text.size() > static_cast<size_t>(kMaxRecord.count))
      fail_at(in.path(), 1, text("a record of more than ", to_string(kMaxRecord), "; ", kSplitText));
    in.take(part.size());
  }
  check_utf8(in.path(), 1, record.text);
  return visitor(std::move(record));
}

bool read_lines(BlockReader& in, const RecordVisitor& visitor) {
  std::string line;
  for (auto at = in.line(); in.next_line(line, kMaxRecord, kSplitText); at = in.line()) {
    if (is_blank(line)) continue;
    check_utf8(in.path(), at, line);
    if (!visitor({.text = line, .label = {}, .line = at})) return false;
  }
  return true;
}

bool read_paragraphs(BlockReader& in, const RecordVisitor& visitor) {
  std::string line;
  Record record;
  const auto hand_over = [&] {
    if (record.text.empty()) return true;
    check_utf8(in.path(), record.line, record.text);
    return visitor(std::exchange(record, {}));
  };
  for (auto at = in.line(); in.next_line(line, kMaxRecord, kSplitText); at = in.line()) {
    if (is_blank(line)) {
      if (!hand_over()) return false;
      continue;
    }
    if (record.text.empty()) record.line = at;
    if (!record.text.empty()) record.text += '\n';
    record.text += line;
    if (record.text.size() > static_cast<size_t>(kMaxRecord.count))
      fail_at(in.path(), record.line, text("a paragraph of more than ", to_string(kMaxRecord), "; ", kSplitText));
  }
  return hand_over();
}

}  // namespace

bool read_records(const TextFile& file, TextUnit unit, const RecordVisitor& visitor) {
  BlockReader in(file.path);
  if (file.format == TextFormat::jsonl) return read_jsonl(in, visitor);
  if (file.format == TextFormat::json) return read_json_file(in, visitor);
  if (in.rest().starts_with("\xEF\xBB\xBF")) in.take(3);  // a byte order mark is not text
  if (unit == TextUnit::line) return read_lines(in, visitor);
  if (unit == TextUnit::paragraph) return read_paragraphs(in, visitor);
  return read_whole(in, visitor);
}

}  // namespace shade::data
