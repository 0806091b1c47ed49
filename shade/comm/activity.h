// Where this rank is, in words: what the watchdog publishes and what a failure report quotes.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

namespace shade::comm {

// Thread-safe. One per world; groups write to it, the watchdog reads it.
class Activity {
 public:
  struct Snapshot {
    std::string where;
    bool waiting = false;   // a caller is blocked in a wait
    uint64_t progress = 0;  // grows with every operation issued, finished or waited for
  };

  void joined();
  void issued(const std::string& operation);
  void finished();
  void begin_wait(const std::string& operation);
  void end_wait();

  Snapshot snapshot() const;

 private:
  mutable std::mutex mutex_;
  std::string last_issued_;
  std::string waiting_in_;
  int waiters_ = 0;
  bool joined_ = false;
  uint64_t progress_ = 0;
};

}  // namespace shade::comm
