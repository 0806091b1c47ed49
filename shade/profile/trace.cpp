#include "shade/profile/trace.h"

#include <sys/syscall.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "shade/base/error.h"
#include "shade/base/output_file.h"
#include "shade/profile/memory.h"
#include "shade/profile/trace_file.h"

namespace shade::profile {
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
    file.add({span.name, track_of(thread), span.begin, span.end, std::move(arguments)});
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
