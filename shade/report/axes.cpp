#include "shade/report/axes.h"

#include <cmath>

#include "shade/base/error.h"
#include "shade/base/json.h"
#include "shade/base/strings.h"

namespace shade::report {
Unit memory_unit(double largest_mb) {
  if (largest_mb >= 512) return {.per_mb = 1.0 / 1024, .name = "GiB"};
  if (largest_mb < 0.5) return {.per_mb = 1024, .name = "KiB"};
  return {};
}

std::string block(const std::string& name, const std::vector<std::vector<double>>& lines) {
  std::string out = text("$", name, " << EOD\n");
  for (const auto& line : lines) {
    std::vector<std::string> cells;
    for (const double value : line) cells.push_back(std::isfinite(value) ? Json(value).dump() : "NaN");
    out += join(cells, " ") + "\n";
  }
  return out + "EOD\n";
}

}  // namespace shade::report
