#include "shade/report/axes.h"

#include <algorithm>
#include <cmath>

#include "shade/base/error.h"
#include "shade/base/json.h"
#include "shade/base/strings.h"
#include "shade/base/units.h"

namespace shade::report {

std::string Unit::label(double value) const {
  constexpr double kLeast = 1e-3;  // below it, significant() has an exponent
  const double shown = of(value);
  if (shown != 0 && std::abs(shown) < kLeast) return text(shown > 0 ? "< 0.001 " : "> -0.001 ", name);
  return text(significant(shown), " ", name);
}

Unit memory_unit(double largest_mb) {
  if (largest_mb >= 512) return {.factor = 1.0 / 1024, .name = "GiB"};
  if (largest_mb < 0.5) return {.factor = 1024, .name = "KiB"};
  return {.factor = 1, .name = "MiB"};
}

Unit time_unit(double largest_ms) {
  if (largest_ms >= 10'000) return {.factor = 1e-3, .name = "s"};
  if (largest_ms < 1) return {.factor = 1e3, .name = "us"};
  return {.factor = 1, .name = "ms"};
}

Unit time_unit(const Results& results) {
  double longest = 0;
  for (const auto& row : results.rows) longest = std::max(longest, row.time_ms);
  return time_unit(longest);
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
