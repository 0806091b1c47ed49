// A trace of every operator, span and collective of this process, as Perfetto and TensorBoard's PyTorch plugin read it.
#pragma once

#include <chrono>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "shade/base/files.h"
#include "shade/base/span.h"
#include "shade/comm/traffic.h"

namespace shade::profile {

// Whose trace it is: viewers put the ranks of a job side by side.
struct TraceOwner {
  int rank = 0;
  int ranks = 1;
  std::string backend = "gloo";
};

// Records from construction to save(), operators through the profiler inside libtorch (Kineto) and spans by listening;
// a listener that was there before still hears everything. Listeners end in the reverse order of their beginning. One
// at a time per process. ended() is thread-safe, the rest is for one thread.
class Trace : public SpanListener {
 public:
  explicit Trace(TraceOwner owner = {});
  ~Trace() override;
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  void ended(const SpanRecord& record) noexcept override;
  void in_unit(const UnitSpan* owner, int64_t unit) noexcept override;

  // A training step, under the name PyTorch's tools group by: ProfilerStep#<number>.
  void step(int64_t number, Clock::time_point begin, Clock::time_point end);

  // Finished collectives (TrafficLog::drain), of which those before this trace are left out. Named as PyTorch's tools
  // expect: gloo:all_gather.
  void collectives(std::span<const comm::TrafficRecord> records);

  // Ends the recording and writes it; TensorBoard wants names that end in `.pt.trace.json`.
  // Throws UsageError for devices and in missing folders.
  void save(const std::string& path, Readers readers = Readers::by_umask);

 private:
  struct HeardSpan {
    SpanRecord record;
    int64_t thread;
  };
  struct Step {
    int64_t number;
    Clock::time_point begin, end;
    int64_t thread;
  };

  TraceOwner owner_;
  Clock::time_point began_;
  std::chrono::nanoseconds to_unix_;  // from Clock's epoch to the one Kineto's times count from
  SpanListener* previous_;
  std::mutex mutex_;  // guards the next two
  bool recording_ = true;
  std::vector<HeardSpan> spans_;
  std::vector<Step> steps_;
  std::vector<comm::TrafficRecord> collectives_;
};

}  // namespace shade::profile
