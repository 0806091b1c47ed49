// Where this rank is, in words: what the watchdog publishes and what a failure report quotes.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "shade/base/units.h"

namespace shade::comm {

// Thread-safe. One per world; groups write to it, the watchdog reads it.
class Activity {
 public:
  struct Snapshot {
    std::string where;
    bool waiting = false;   // a caller is blocked in a wait, or a device has an overdue operation
    uint64_t progress = 0;  // grows with every operation issued, finished or waited for
  };

  void joined();
  void issued(const std::string& operation);
  void finished();
  void begin_wait(const std::string& operation);
  void end_wait();

  // An operation that a device carries out: no caller is blocked, so what is not complete for longer than the patience
  // of a snapshot counts as waited for.
  uint64_t begin_flight(const std::string& operation);
  void end_flight(uint64_t flight);

  Snapshot snapshot(Seconds patience) const;

 private:
  mutable std::mutex mutex_;
  std::string last_issued_;
  std::string waiting_in_;
  int waiters_ = 0;
  struct Flight {
    std::string operation;
    Clock::time_point since;
  };
  std::map<uint64_t, Flight> flights_;  // in the order issued
  bool joined_ = false;
  uint64_t progress_ = 0;
};

}  // namespace shade::comm
