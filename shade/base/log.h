// Messages for the person at the terminal: standard error, quiet by default (warnings and errors).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "shade/base/error.h"

namespace shade::log {

// How much a message matters. As a setting: the least that is written; off writes none.
enum class Level { debug, info, warning, error, off };

Level parse_level(std::string_view word);  // throws UsageError
void set_level(Level level);               // of the process; warning until it is set
bool enabled(Level level);                 // whether such a message is written

// What takes a message of so much weight.
using Sink = std::function<void(Level level, std::string_view message)>;

// Takes the messages of this process in place of standard error, those that are enabled; called by any thread, one at a
// time. An empty sink restores standard error. It must not wait for a thread that may log; what it throws is dropped,
// and the message goes to standard error. A message may have several lines; control characters in it are made visible.
void set_sink(Sink sink);

// Writes a message; what is not enabled is dropped.
void write(Level level, std::string_view message);

// Writes the parts as one message, and makes no text of them if it isn't enabled.
template <class... Parts>
void at(Level level, const Parts&... parts) {
  if (enabled(level)) write(level, text(parts...));
}
// at() of this level.
template <class... Parts>
void debug(const Parts&... parts) {
  at(Level::debug, parts...);
}
// at() of this level.
template <class... Parts>
void info(const Parts&... parts) {
  at(Level::info, parts...);
}
// at() of this level.
template <class... Parts>
void warning(const Parts&... parts) {
  at(Level::warning, parts...);
}
// at() of this level.
template <class... Parts>
void error(const Parts&... parts) {
  at(Level::error, parts...);
}

}  // namespace shade::log
