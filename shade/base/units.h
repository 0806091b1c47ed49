// Quantities with their units: no bare number crosses a module's border or reaches a report.
#pragma once

#include <chrono>
#include <cmath>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace shade {

struct Bytes {
  int64_t count = 0;

  auto operator<=>(const Bytes&) const = default;
  Bytes& operator+=(Bytes other) {
    count += other.count;
    return *this;
  }
  friend Bytes operator+(Bytes a, Bytes b) { return {a.count + b.count}; }
  friend Bytes operator-(Bytes a, Bytes b) { return {a.count - b.count}; }
};

// The unit of memory in result files.
inline double mib(Bytes bytes) { return static_cast<double>(bytes.count) / (1024.0 * 1024.0); }
inline Bytes from_mib(double mb) { return {std::llround(mb * 1024.0 * 1024.0)}; }

constexpr Bytes KiB(int64_t n) { return {n << 10}; }
constexpr Bytes MiB(int64_t n) { return {n << 20}; }
constexpr Bytes GiB(int64_t n) { return {n << 30}; }

// "4096", "64MiB", "1.5 GB" (1000s), "2k" is refused: a unit must be said whole. Throws UsageError.
Bytes parse_bytes(std::string_view word);
std::string to_string(Bytes bytes);  // "64 MiB", "1.50 GiB", "17 B"

using Seconds = std::chrono::duration<double>;
using Millis = std::chrono::duration<double, std::milli>;
using Clock = std::chrono::steady_clock;

// "10", "10s", "500ms", "2min". Throws UsageError.
Seconds parse_seconds(std::string_view word);
std::string to_string(Seconds duration);  // "812 us", "12.3 ms", "4.56 s", "3 min 20 s"

std::string to_string_bandwidth(Bytes bytes, Seconds duration);  // "2.41 GB/s" (1e9 bytes)

// A number with `digits` significant digits, the one style of tables, sentences, pictures and pages (there by
// report/page/numbers.js): 12.3, 0.0451, 12300. Below 0.001 and from 1e16 on with an exponent: 1.30e-06.
std::string significant(double value, int digits = 3);

// Rounded up at the fourth digit after the point (or the fourth significant one): no printed epsilon or sigma promises
// more than was computed.
std::string rounded_up(double value);

// Values in per cent as text: three digits, but no more than two after the point.

std::string percent(double value);         // "123 %", "1.23 %", "0.08 %", "0 %"
std::string signed_percent(double value);  // "+12.3 %", "-4.00 %", "0 %"

}  // namespace shade
