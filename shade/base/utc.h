// A moment as text, in UTC, as result files and pages have it: 2026-01-31T12:00:00Z.
#pragma once

#include <algorithm>
#include <array>
#include <ctime>
#include <string>
#include <string_view>

namespace shade {

inline std::string utc_text(std::time_t moment) {
  std::tm utc{};
  if (::gmtime_r(&moment, &utc) == nullptr) return "";
  std::array<char, 32> out{};
  std::strftime(out.data(), out.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return out.data();
}

// "2026-01-31": digits and hyphens where they belong.
inline bool is_day(std::string_view word) {
  constexpr std::string_view kShape = "0000-00-00";
  return std::equal(word.begin(), word.end(), kShape.begin(), kShape.end(),
                    [](char c, char shape) { return shape == '0' ? c >= '0' && c <= '9' : c == shape; });
}

}  // namespace shade
