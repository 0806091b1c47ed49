// Any bytes as a .csv file, plain or compressed: refused with a FormatError, or every row has the header's fields, all
// of them UTF-8, and the rows written by RFC 4180 are read as the same rows.
#include <cstddef>
#include <cstdint>

#include "fuzz/in_memory.h"
#include "shade/data/csv_rows.h"
#include "shade/data/records.h"
#include "shade/io/errors.h"
#include "shade/io/strict_json.h"

namespace {

using namespace shade;

using Rows = std::vector<std::vector<std::optional<std::string>>>;  // the header first; null cells are unset

data::TextFile file_of(const std::filesystem::path& path, data::Compression compression) {
  return {.path = path, .name = "input", .format = data::TextFormat::csv, .compression = compression};
}

Rows read(const data::TextFile& file) {
  const auto reader = data::open_csv_rows(file, /*wanted=*/{});
  Rows rows(1);
  int64_t line = 0;
  while (const auto* row = reader->next()) {
    SHADE_CHECK(row->line > line, "line ", row->line, " after ", line);
    line = row->line;
    if (rows.size() == 1)
      for (const auto& cell : row->cells) rows[0].emplace_back(cell.name);
    auto& cells = rows.emplace_back();
    for (const auto& cell : row->cells) {
      SHADE_CHECK(!io::first_not_utf8(cell.text), "a text that is not UTF-8");
      const bool null = cell.kind == data::CellKind::null;
      SHADE_CHECK(null || cell.kind == data::CellKind::string, "a cell that is no string");
      cells.push_back(null ? std::nullopt : std::optional(cell.text));
    }
    SHADE_CHECK(cells.size() == rows[0].size(), "a row of ", cells.size(), " fields");
  }
  return rows;
}

std::string written(const Rows& rows) {
  std::string out;
  for (const auto& row : rows) {
    for (const auto& cell : row) {
      out += &cell == row.data() ? "" : ",";
      if (!cell) continue;
      out += '"';
      for (const char c : *cell) out += c == '"' ? "\"\"" : std::string(1, c);
      out += '"';
    }
    out += "\r\n";
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size == 0) return 0;
  static const fuzz::InMemory input, copy;
  input.fill({reinterpret_cast<const char*>(bytes) + 1, size - 1});
  constexpr data::Compression kKinds[] = {data::Compression::none, data::Compression::gzip, data::Compression::zstd};
  const auto file = file_of(input.path(), kKinds[bytes[0] % std::size(kKinds)]);
  try {
    const auto rows = read(file);
    // A row of one null is an empty line, which is no row.
    if (rows.size() > 1 && rows[0].size() > 1) {
      copy.fill(written(rows));
      SHADE_CHECK(read(file_of(copy.path(), data::Compression::none)) == rows, "written rows are read as others");
    }
    data::Records({}).read(file, [](data::Record&&, uint64_t) { return true; });
  } catch (const io::FormatError& fault) {
    fuzz::check_message(fault.what());
  } catch (const UsageError& fault) {  // messages without a template
    fuzz::check_message(fault.what());
  }
  return 0;
}
