#include "shade/profile/trace.h"

#include <sys/syscall.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <string>

#include "shade/base/error.h"
#include "shade/base/files.h"
#include "shade/base/json.h"
#include "shade/base/units.h"
#include "shade/profile/memory.h"

namespace shade::profile {
namespace {

// Our own events in a file that Kineto wrote (Chrome's trace format, one JSON object with an array of events).
struct TraceEvent {
  std::string name;
  int64_t track;
  Clock::time_point begin, end;
  Json arguments;
};

// Appends in place: traces have hundreds of megabytes, and of Kineto's part only the last lines are rewritten.
class TraceFile {
 public:
  TraceFile(const std::string& path, std::chrono::nanoseconds to_unix);

  void name_process(const std::string& name);
  void name_track(int64_t track, const std::string& name, int64_t order);  // lower orders are drawn higher
  void add(const TraceEvent& event);
  void close(const Json& about);  // facts beside the events; the file is whole again only after this

 private:
  void write(const Json& event);
  void describe(const char* what, int64_t track, const Json& arguments);

  std::string path_, tail_;
  std::fstream file_;
  std::chrono::nanoseconds origin_;  // Clock's time at which the file's times begin
};

constexpr std::streamoff kWindow = 64 << 10;

double micros(std::chrono::nanoseconds time) { return std::chrono::duration<double, std::micro>(time).count(); }

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

}  // namespace

namespace kineto = torch::autograd::profiler;
namespace impl = torch::profiler::impl;

namespace {

// Ours go on tracks of their own: Kineto's times come from another clock, and of two slices on a track that overlap by
// a microsecond without nesting Perfetto drops one. Thread ids of Linux are below 2^22.
constexpr int64_t kSpanTracks = 10'000'000, kCollectiveTracks = 20'000'000;

int64_t this_thread() { return ::syscall(SYS_gettid); }

// Collectives of a group that overlap (native transports carry out several at once) take another track each.
class Lanes {
 public:
  int64_t of(const comm::TrafficRecord& record, TraceFile& file) {
    auto& lanes = groups_[record.group];
    for (auto& lane : lanes)
      if (lane.busy_until <= record.started) {
        lane.busy_until = record.ended;
        return lane.track;
      }
    lanes.push_back({record.ended, kCollectiveTracks + count_++});
    file.name_track(lanes.back().track, text("collectives ", record.group), -1);
    return lanes.back().track;
  }

 private:
  struct Lane {
    Clock::time_point busy_until;
    int64_t track;
  };
  std::map<std::string, std::vector<Lane>> groups_;
  int64_t count_ = 0;
};

}  // namespace

Trace::Trace(TraceOwner owner)
    : owner_(std::move(owner)),
      began_(Clock::now()),
      to_unix_(std::chrono::system_clock::now().time_since_epoch() - began_.time_since_epoch()) {
  const impl::ProfilerConfig config(impl::ProfilerState::KINETO);
  const std::set<impl::ActivityType> activities{impl::ActivityType::CPU};
  kineto::prepareProfiler(config, activities);
  kineto::enableProfiler(config, activities, {at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE});
  previous_ = Span::listen(this);
}

Trace::~Trace() {
  Span::listen(previous_);
  if (previous_ == nullptr) TensorMemory::forget_units();
  if (recording_) kineto::disableProfiler();
}

void Trace::ended(const SpanRecord& record) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (recording_) spans_.push_back({record, this_thread()});
  }
  if (previous_ != nullptr) previous_->ended(record);
}

void Trace::in_unit(const UnitSpan* owner, int64_t unit) noexcept {
  TensorMemory::in_unit(owner, unit);
  if (previous_ != nullptr) previous_->in_unit(owner, unit);
}

void Trace::step(int64_t number, Clock::time_point begin, Clock::time_point end) {
  steps_.push_back({number, begin, end, this_thread()});
}

void Trace::collectives(std::span<const comm::TrafficRecord> records) {
  std::copy_if(records.begin(), records.end(), std::back_inserter(collectives_),
               [&](const auto& record) { return record.enqueued >= began_; });
}

void Trace::save(const std::string& name, Readers readers) {
  const auto path = regular_output(name).string();
  {
    const std::lock_guard lock(mutex_);
    SHADE_CHECK(recording_, "this trace was already saved");
    recording_ = false;
  }
  make_file(path + ".tmp", readers);  // Kineto writes there, removes what has the trace's name, and renames
  kineto::disableProfiler()->save(path);

  TraceFile file(path, to_unix_);
  file.name_process(text("shade rank ", owner_.rank, " of ", owner_.ranks));
  std::set<int64_t> threads;
  const auto track_of = [&](int64_t thread) {
    if (threads.insert(thread).second) file.name_track(kSpanTracks + thread, text("spans of thread ", thread), -2);
    return kSpanTracks + thread;
  };
  for (const auto& step : steps_)
    file.add({text("ProfilerStep#", step.number), track_of(step.thread), step.begin, step.end, {}});
  // Outer ones first, also where both begin in the same nanosecond.
  std::sort(spans_.begin(), spans_.end(), [](const auto& a, const auto& b) {
    return std::pair(a.record.begin, b.record.end) < std::pair(b.record.begin, a.record.end);
  });
  for (const auto& [span, thread] : spans_) {
    Json arguments = Json::object();
    if (span.index >= 0) arguments["index"] = span.index;
    file.add({to_string(span.name), track_of(thread), span.begin, span.end, std::move(arguments)});
  }
  Lanes lanes;
  int64_t number = 0;
  for (const auto& record : collectives_)
    file.add({text(owner_.backend, ":", to_string(record.kind)),
              lanes.of(record, file),
              record.started,
              record.ended,
              {{"label", record.label},
               {"group", record.group},
               {"ranks", record.ranks},
               {"payload_bytes", record.payload.count},
               {"wire_bytes", record.wire.count},
               {"queued_ms", Millis(record.started - record.enqueued).count()},
               {"waited_for_ms", Millis(record.waited).count()},
               // The plugin tells collectives apart by the first of these and computes their size from the others.
               {"External id", kCollectiveTracks + number++},
               {"Input Dims", {{record.payload.count}}},
               {"Input type", {"unsigned char"}}}});
  file.close({{"distributedInfo",  // what the plugin's view of several ranks needs
               {{"backend", owner_.backend}, {"rank", owner_.rank}, {"world_size", owner_.ranks}}}});
}

}  // namespace shade::profile
