// Where the time of a step goes: spans (base/span.h), one by one or added up by name and by index.
#pragma once

#include <c10/core/Event.h>

#include <map>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "shade/base/span.h"

namespace shade::profile {

// Listens from construction to destruction; a listener that was there before still hears everything. Listeners end in
// the reverse order of their beginning. Phases nest: a norm is also part of its backward.
//
// On an accelerator a span only issues kernels. There its times are those of events on the stream of the thread that
// begins or ends it: from when the device reached the one to when it reached the other. They are placed on the host's
// clock by the last restart(), when nothing should be under way; reading them waits for the device.
class Phases : public SpanListener {
 public:
  explicit Phases(c10::Device device = c10::kCPU);
  ~Phases() override;
  Phases(const Phases&) = delete;
  Phases& operator=(const Phases&) = delete;

  void began(const SpanRecord& record) noexcept override;
  void ended(const SpanRecord& record) noexcept override;
  void in_unit(const UnitSpan* owner, int64_t unit) noexcept override;
  void restart();  // forgets what it heard; 32 bytes a span add up in a long run

  std::map<std::string, Millis> by_name() const;
  std::map<int64_t, Millis> by_index(SpanName name) const;
  std::vector<SpanRecord> records() const;  // in the order in which they ended

 private:
  // Indices into records_ whose times are still with the device.
  struct Timed {
    size_t record;
    c10::Event begin, end;
  };
  c10::Event mark() const;
  std::optional<c10::Event> try_mark() const noexcept;
  void settle() const;

  c10::Device device_;
  SpanListener* previous_;
  mutable std::mutex mutex_;
  mutable std::vector<SpanRecord> records_;
  mutable std::vector<Timed> timed_;
  std::unordered_map<const void*, c10::Event> begun_;  // by owner
  std::optional<c10::Event> origin_;
  Clock::time_point origin_at_;
};

// Spans nest: a norm is part of its backward, and both wait for parameters. Own times count every moment once.

struct OwnTimes {
  std::map<std::string, Millis> phases;  // by name, each without the spans inside it; waits are phases of their own
  std::map<std::string, Millis> waits;   // by the outermost phase that waited
};

// Of the spans of one step, in the order in which they ended. Units are no phases, and the wait of a collective belongs
// to the wait that it is part of.
OwnTimes own_times(std::span<const SpanRecord> records);

}  // namespace shade::profile
