#include "shade/base/units.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "shade/base/error.h"
#include "shade/base/strings.h"

namespace shade {

namespace {

struct Unit {
  const char* name;
  double factor;
};

// Splits "1.5 GB" into number and unit, looks the unit up.
template <size_t N>
double parse_quantity(std::string_view word, const std::array<Unit, N>& units, const char* kind, const char* example) {
  const auto clean = trim(word);
  const auto end = clean.find_first_not_of("0123456789.+-eE");
  // An exponent's letter belongs to the number only if a digit follows; "1e3" is a number, "1EB" would not be.
  const auto number = parse_real(trim(clean.substr(0, end)));
  const auto unit = end == std::string_view::npos ? std::string_view("") : trim(clean.substr(end));
  if (number && std::isfinite(*number) && *number >= 0) {
    for (const auto& candidate : units)
      if (unit == candidate.name) return *number * candidate.factor;
  }
  throw UsageError(text("'", word, "' is not ", kind, "; expected for example ", example));
}

constexpr double kKilo = 1e3;
constexpr double kKibi = 1024;

}  // namespace

Bytes parse_bytes(std::string_view word) {
  static constexpr std::array<Unit, 11> kUnits{{{"", 1},
                                                {"B", 1},
                                                {"kB", kKilo},
                                                {"KB", kKilo},  // what people write
                                                {"MB", kKilo * kKilo},
                                                {"GB", kKilo * kKilo * kKilo},
                                                {"TB", kKilo * kKilo * kKilo * kKilo},
                                                {"KiB", kKibi},
                                                {"MiB", kKibi * kKibi},
                                                {"GiB", kKibi * kKibi * kKibi},
                                                {"TiB", kKibi * kKibi * kKibi * kKibi}}};
  const double bytes = parse_quantity(word, kUnits, "a size", "64MiB, 1.5GiB or 4096");
  SHADE_REQUIRE(bytes < 9.0e18, "'", word, "' is too large a size; expected less than 8 EiB");
  return {static_cast<int64_t>(std::llround(bytes))};
}

std::string to_string(Bytes bytes) {
  constexpr std::array<std::pair<const char*, double>, 4> kSteps{
      {{"TiB", kKibi * kKibi * kKibi * kKibi}, {"GiB", kKibi * kKibi * kKibi}, {"MiB", kKibi * kKibi}, {"KiB", kKibi}}};
  const auto count = static_cast<double>(bytes.count);
  for (const auto& [name, factor] : kSteps)
    if (std::abs(count) >= factor) return text(significant(count / factor, 3), " ", name);
  return text(bytes.count, " B");
}

Seconds parse_seconds(std::string_view word) {
  static constexpr std::array<Unit, 6> kUnits{
      {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"min", 60}, {"h", 3600}}};
  return Seconds(parse_quantity(word, kUnits, "a duration", "10s, 500ms or 2min"));
}

std::string to_string(Seconds duration) {
  const double s = duration.count();
  if (s == 0) return "0 s";
  if (s >= 90) {
    const auto whole = std::llround(s);
    if (whole >= 5400) return text(whole / 3600, " h ", whole % 3600 / 60, " min");
    return text(whole / 60, " min ", whole % 60, " s");
  }
  if (s >= 1) return text(significant(s), " s");
  if (s >= 1e-3) return text(significant(s * 1e3), " ms");
  return text(significant(s * 1e6), " us");
}

std::string to_string_bandwidth(Bytes bytes, Seconds duration) {
  if (duration.count() <= 0) return "-";
  return text(significant(static_cast<double>(bytes.count) / duration.count() / 1e9), " GB/s");
}

std::string significant(double value, int digits) {
  if (value == 0) return "0";
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : (value > 0 ? "inf" : "-inf");
  std::array<char, 64> out{};
  std::snprintf(out.data(), out.size(), "%.*e", digits - 1, value);
  const std::string rounded = out.data();
  const int magnitude = std::stoi(rounded.substr(rounded.find('e') + 1));
  if (magnitude < -3 || magnitude > 15) return rounded;
  std::snprintf(out.data(), out.size(), "%.*f", std::max(0, digits - 1 - magnitude), std::stod(rounded));
  return out.data();
}

std::string rounded_up(double value) {
  if (!std::isfinite(value) || value == 0) return text(value);
  const double unit = std::pow(10.0, std::min(-4.0, std::floor(std::log10(value)) - 3));
  return significant(std::ceil(value / unit) * unit, std::max(4, static_cast<int>(std::ceil(std::log10(value))) + 4));
}

std::string percent(double value) {
  if (std::abs(value) < 0.005) return "0 %";
  if (std::abs(value) >= 1 || !std::isfinite(value)) return significant(value) + " %";
  std::array<char, 16> out{};
  std::snprintf(out.data(), out.size(), "%.2f %%", value);
  return out.data();
}

std::string signed_percent(double value) { return (value >= 0.005 ? "+" : "") + percent(value); }

}  // namespace shade
