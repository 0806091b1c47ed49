#include "shade/base/percent.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "shade/base/units.h"

namespace shade {

std::string percent(double value) {
  if (std::abs(value) < 0.005) return "0 %";
  if (std::abs(value) >= 1 || !std::isfinite(value)) return significant(value) + " %";
  std::array<char, 16> out{};
  std::snprintf(out.data(), out.size(), "%.2f %%", value);
  return out.data();
}

std::string signed_percent(double value) { return (value >= 0.005 ? "+" : "") + percent(value); }

}  // namespace shade
