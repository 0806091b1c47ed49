#include "shade/data/rows.h"

#include "shade/data/arrow/arrow_library.h"
#include "shade/data/block_reader.h"
#include "shade/data/csv_rows.h"
#include "shade/data/json_rows.h"
#include "shade/io/untrusted_text.h"

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

}  // namespace shade::data
