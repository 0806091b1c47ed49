// spdlog stays in this file: its fmt and the one inside libtorch's headers must not meet.
#include "shade/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <memory>

#include "shade/base/visible_text.h"

namespace shade::log {
namespace {

spdlog::level::level_enum native(Level level) {
  switch (level) {
    case Level::debug: return spdlog::level::debug;
    case Level::info: return spdlog::level::info;
    case Level::warning: return spdlog::level::warn;
    case Level::error: return spdlog::level::err;
    case Level::off: break;
  }
  return spdlog::level::off;
}

// Never destroyed: threads of libtorch may outlive static destructors and still log.
spdlog::logger& logger() {
  static auto* const instance = [] {
    auto* made = new spdlog::logger("shade", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%H:%M:%S.%e %^%l%$ %v");
    made->set_level(spdlog::level::warn);
    return made;
  }();
  return *instance;
}

}  // namespace

Level parse_level(std::string_view word) {
  static constexpr std::array<std::pair<std::string_view, Level>, 5> kLevels{{{"debug", Level::debug},
                                                                              {"info", Level::info},
                                                                              {"warning", Level::warning},
                                                                              {"error", Level::error},
                                                                              {"off", Level::off}}};
  for (const auto& [name, level] : kLevels)
    if (word == name) return level;
  throw UsageError(text("log level '", word, "' is unknown; expected debug, info, warning, error or off"));
}

void set_level(Level level) { logger().set_level(native(level)); }
bool enabled(Level level) { return logger().should_log(native(level)); }
void write(Level level, std::string_view message) {
  if (!enabled(level)) return;
  const auto shown = visible_lines(message);
  logger().log(native(level), spdlog::string_view_t(shown.data(), shown.size()));
}

}  // namespace shade::log
