// A moment as text, in UTC, as result files and pages have it: 2026-01-31T12:00:00Z.
#pragma once

#include <array>
#include <ctime>
#include <string>

namespace shade {

inline std::string utc_text(std::time_t moment) {
  std::tm utc{};
  if (::gmtime_r(&moment, &utc) == nullptr) return "";
  std::array<char, 32> out{};
  std::strftime(out.data(), out.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return out.data();
}

}  // namespace shade
