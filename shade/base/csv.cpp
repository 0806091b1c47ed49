#include "shade/base/csv.h"

#include "shade/base/strings.h"
#include "shade/base/visible_text.h"

namespace shade {
namespace {

std::string as_text(const std::string& cell) {
  const bool formula = !cell.empty() && std::string_view("=+-@").find(cell.front()) != std::string_view::npos;
  return (formula && !parse_real(cell) ? "'" : "") + visible(cell);
}

}  // namespace

std::string csv_cell(const std::string& words) {
  const auto cell = as_text(words);
  if (cell.find_first_of(",\"") == std::string::npos) return cell;
  std::string out = "\"";
  for (const char c : cell) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace shade
