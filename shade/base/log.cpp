// No logging library: one line per message is all that is needed, and a program that embeds the library would have to
// install that library too, beside the fmt inside libtorch's headers.
#include "shade/base/log.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <mutex>

#include "shade/base/terminal.h"
#include "shade/base/visible_text.h"

namespace shade::log {
namespace {

constexpr std::array<std::string_view, 5> kNames{"debug", "info", "warning", "error", "off"};

std::string shown_name(Level level) {
  const auto name = kNames[static_cast<size_t>(level)];
  if (level == Level::error) return coloured(name, Colour::red, stderr);
  if (level == Level::warning) return coloured(name, Colour::yellow, stderr);
  return coloured(name, Colour::bold, stderr);
}

std::atomic<Level> least{Level::warning};

// Never destroyed: threads of libtorch may outlive static destructors and still log.
struct Output {
  std::mutex mutex;
  Sink sink;
};
Output& output() {
  static auto* const instance = new Output;
  return *instance;
}

// "14:03:59.120 warning ..." in one write: lines of ranks that share a terminal stay whole.
void to_standard_error(Level level, std::string_view message) {
  const auto now = std::chrono::system_clock::now();
  const auto seconds = std::chrono::system_clock::to_time_t(now);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm local{};
  localtime_r(&seconds, &local);
  std::array<char, 32> time{};
  std::snprintf(time.data(), time.size(), "%02d:%02d:%02d.%03d ", local.tm_hour, local.tm_min, local.tm_sec,
                static_cast<int>(ms));
  const auto line = text(time.data(), shown_name(level), ' ', message, '\n');
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

Level parse_level(std::string_view word) {
  for (size_t i = 0; i < kNames.size(); ++i)
    if (word == kNames[i]) return static_cast<Level>(i);
  throw UsageError(text("log level '", word, "' is unknown; expected debug, info, warning, error or off"));
}

void set_level(Level level) { least = level; }
bool enabled(Level level) { return level != Level::off && level >= least.load(); }

void set_sink(Sink sink) {
  {
    const std::lock_guard lock(output().mutex);
    std::swap(output().sink, sink);
  }  // the old one is destroyed here, without the lock
}

void write(Level level, std::string_view message) {
  if (!enabled(level)) return;
  const auto shown = visible_lines(message);
  static thread_local bool inside = false;  // a sink that logs is not called again
  auto& [mutex, sink] = output();
  if (!inside) {
    const std::lock_guard lock(mutex);
    if (sink) {
      inside = true;
      try {
        sink(level, shown);
      } catch (...) {  // destructors and those who end a job log too
        to_standard_error(level, shown);
      }
      inside = false;
      return;
    }
  }
  to_standard_error(level, shown);
}

}  // namespace shade::log
