// The traffic record: what every collective moved and when. Groups write it, the profiler drains it.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "shade/base/units.h"
#include "shade/comm/collective.h"

namespace shade::comm {

struct TrafficRecord {
  Collective kind = Collective::barrier;
  std::string label;
  std::string group;
  int ranks = 1;
  Bytes payload;  // bytes of the full buffer
  Bytes wire;     // bytes this rank sent
  Clock::time_point enqueued;
  Clock::time_point started;  // the transport began to work on it
  Clock::time_point ended;
  Seconds waited{0};  // time callers spent blocked in wait(): the exposed part

  bool finished() const { return ended != Clock::time_point{}; }
};

// Thread-safe. Bounded: if it is not drained, the oldest records go first and are counted.
class TrafficLog {
 public:
  explicit TrafficLog(size_t capacity = 1 << 16) : capacity_(capacity) {}

  // A record that its operation keeps updating under the log's lock.
  class Entry {
   public:
    void started(Clock::time_point at);
    void ended(Clock::time_point at, Bytes wire);
    void waited(Seconds time);
    TrafficRecord copy() const;

   private:
    friend class TrafficLog;
    mutable std::mutex mutex_;
    TrafficRecord record_;
  };

  std::shared_ptr<Entry> add(TrafficRecord record);

  // Finished records, in the order they were enqueued; unfinished ones stay.
  std::vector<TrafficRecord> drain();
  size_t dropped() const;

 private:
  mutable std::mutex mutex_;
  size_t capacity_;
  size_t dropped_ = 0;
  std::deque<std::shared_ptr<Entry>> entries_;
};

}  // namespace shade::comm
