#include "shade/profile/trace_file.h"

#include <unistd.h>

#include <algorithm>

#include "shade/base/error.h"

namespace shade::profile {
namespace {

constexpr std::streamoff kWindow = 64 << 10;

double micros(std::chrono::nanoseconds time) { return std::chrono::duration<double, std::micro>(time).count(); }

}  // namespace

TraceFile::TraceFile(const std::string& path, std::chrono::nanoseconds to_unix)
    : path_(path), file_(path, std::ios::in | std::ios::out | std::ios::binary) {
  SHADE_REQUIRE(file_.is_open(), "the trace ", path, " could not be written; is its folder there and writable?");
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(path));
  std::string text(static_cast<size_t>(std::min(size, kWindow)), ' ');
  const auto read_at = [&](std::streamoff at) {
    file_.seekg(at);
    file_.read(text.data(), static_cast<std::streamsize>(text.size()));
  };
  read_at(0);
  const std::string key = "\"baseTimeNanoseconds\": ";
  const auto base = text.find(key);
  SHADE_CHECK(base != std::string::npos, path, " has no baseTimeNanoseconds: not what Kineto of this libtorch writes");
  origin_ = std::chrono::nanoseconds(std::stoll(text.substr(base + key.size(), 24))) - to_unix;
  read_at(size - static_cast<std::streamoff>(text.size()));
  const auto end = text.rfind("],\"traceName\"");
  SHADE_CHECK(end != std::string::npos, path, " doesn't end with traceName: not what Kineto of this libtorch writes");
  tail_ = text.substr(end + 1);
  file_.seekp(size - static_cast<std::streamoff>(tail_.size() + 1));
}

void TraceFile::write(const Json& event) { file_ << ",\n  " << event.dump(); }

void TraceFile::describe(const char* what, int64_t track, const Json& arguments) {
  const auto now = micros(Clock::now().time_since_epoch() - origin_);  // of two names the later one holds
  write({{"ph", "M"}, {"name", what}, {"ts", now}, {"pid", ::getpid()}, {"tid", track}, {"args", arguments}});
}

void TraceFile::name_process(const std::string& name) { describe("process_name", 0, {{"name", name}}); }

void TraceFile::name_track(int64_t track, const std::string& name, int64_t order) {
  describe("thread_name", track, {{"name", name}});
  describe("thread_sort_index", track, {{"sort_index", order}});
}

void TraceFile::add(const TraceEvent& event) {
  Json written{{"ph", "X"},
               {"cat", "user_annotation"},
               {"name", event.name},
               {"pid", ::getpid()},
               {"tid", event.track},
               {"ts", micros(event.begin.time_since_epoch() - origin_)},
               {"dur", micros(event.end - event.begin)}};
  if (!event.arguments.empty()) written["args"] = event.arguments;
  write(written);
}

void TraceFile::close(const Json& about) {
  file_ << "\n  ]";
  for (const auto& [key, value] : about.items()) file_ << ",\n  " << Json(key) << ": " << value;
  file_ << tail_;
  file_.close();
  SHADE_REQUIRE(file_.good(), "the trace ", path_, " could not be completed; is the disk full?");
}

}  // namespace shade::profile
