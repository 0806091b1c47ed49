// Messages for the person at the terminal: standard error, quiet by default (warnings and errors).
#pragma once

#include <string>
#include <string_view>

#include "shade/base/error.h"

namespace shade::log {

enum class Level { debug, info, warning, error, off };

Level parse_level(std::string_view word);  // throws UsageError
void set_level(Level level);
bool enabled(Level level);
void write(Level level, std::string_view message);

template <class... Parts>
void at(Level level, const Parts&... parts) {
  if (enabled(level)) write(level, text(parts...));
}
template <class... Parts>
void debug(const Parts&... parts) {
  at(Level::debug, parts...);
}
template <class... Parts>
void info(const Parts&... parts) {
  at(Level::info, parts...);
}
template <class... Parts>
void warning(const Parts&... parts) {
  at(Level::warning, parts...);
}
template <class... Parts>
void error(const Parts&... parts) {
  at(Level::error, parts...);
}

}  // namespace shade::log
