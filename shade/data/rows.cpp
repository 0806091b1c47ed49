#include "shade/data/rows.h"

#include <utility>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/data/arrow/arrow_library.h"
#include "shade/data/byte_source.h"
#include "shade/data/csv_rows.h"
#include "shade/data/json_rows.h"
#include "shade/io/strict_json.h"

namespace shade::data {

std::unique_ptr<RowReader> open_rows(const TextFile& file, TextUnit unit, const Wanted& wanted) {
  switch (file.format) {
    case TextFormat::txt: return open_plain_rows(file, unit);
    case TextFormat::csv: return open_csv_rows(file, wanted);
    case TextFormat::parquet:
    case TextFormat::arrow: return open_arrow_rows(file, wanted);
    default: return open_json_rows(file, wanted);
  }
}

void check_utf8(const std::filesystem::path& path, int64_t line, std::string_view words) {
  const auto at = io::first_not_utf8(words);
  if (!at) return;
  line += std::count(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(*at), '\n');
  fail_at(path, line, "the text is not UTF-8; convert the file, e.g. with iconv -t UTF-8");
}

namespace {

constexpr const char* kCutText = "cut it with --text-unit paragraph or line, or into smaller files";

class PlainRows final : public RowReader {
 public:
  PlainRows(const TextFile& file, TextUnit unit) : in_(file.path, file.compression), unit_(unit) {
    row_.cells.push_back({.name = "text", .kind = CellKind::string});
    if (in_.rest().starts_with("\xEF\xBB\xBF")) in_.take(3);  // a byte order mark is not text
  }

  Row* next() override {
    auto& words = row_.cells[0].text;
    words.clear();
    const bool found = unit_ == TextUnit::file   ? whole(words)
                       : unit_ == TextUnit::line ? line(words)
                                                 : paragraph(words);
    if (!found) return nullptr;
    check_utf8(in_.path(), row_.line, words);
    return &row_;
  }

  uint64_t position() const override { return in_.position(); }

 private:
  bool whole(std::string& words) {
    if (std::exchange(over_, true)) return false;
    for (auto part = in_.rest(); !part.empty(); part = in_.rest()) {
      words.append(part);
      require_size(words, "record");
      in_.take(part.size());
    }
    return true;
  }

  bool line(std::string& words) {
    do row_.line = in_.line();
    while (in_.next_line(words, kMaxRow, kCutText) && trim(words).empty());
    return !trim(words).empty();
  }

  bool paragraph(std::string& words) {
    std::string next;
    for (auto at = in_.line(); in_.next_line(next, kMaxRow, kCutText); at = in_.line()) {
      if (trim(next).empty() && words.empty()) continue;
      if (trim(next).empty()) return true;
      if (words.empty()) row_.line = at;
      if (!words.empty()) words += '\n';
      words += next;
      require_size(words, "paragraph");
    }
    return !words.empty();
  }

  void require_size(const std::string& words, const char* what) const {
    if (words.size() > static_cast<size_t>(kMaxRow.count))
      fail_at(in_.path(), row_.line, text("a ", what, " of more than ", to_string(kMaxRow), "; ", kCutText));
  }

  BlockReader in_;
  TextUnit unit_;
  Row row_;
  bool over_ = false;
};

}  // namespace

std::unique_ptr<RowReader> open_plain_rows(const TextFile& file, TextUnit unit) {
  return std::make_unique<PlainRows>(file, unit);
}

}  // namespace shade::data
