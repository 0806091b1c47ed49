#include "shade/comm/activity.h"

namespace shade::comm {

void Activity::joined() {
  const std::lock_guard lock(mutex_);
  joined_ = true;
  ++progress_;
}

void Activity::issued(const std::string& operation) {
  const std::lock_guard lock(mutex_);
  last_issued_ = operation;
  ++progress_;
}

void Activity::finished() {
  const std::lock_guard lock(mutex_);
  ++progress_;
}

void Activity::begin_wait(const std::string& operation) {
  const std::lock_guard lock(mutex_);
  waiting_in_ = operation;
  ++waiters_;
  ++progress_;
}

void Activity::end_wait() {
  const std::lock_guard lock(mutex_);
  --waiters_;
  ++progress_;
}

uint64_t Activity::begin_flight(const std::string& operation) {
  const std::lock_guard lock(mutex_);
  flights_[++progress_] = {operation, Clock::now()};
  return progress_;
}

void Activity::end_flight(uint64_t flight) {
  const std::lock_guard lock(mutex_);
  flights_.erase(flight);
  ++progress_;
}

Activity::Snapshot Activity::snapshot(Seconds patience) const {
  const std::lock_guard lock(mutex_);
  if (waiters_ > 0) return {"waits in " + waiting_in_, true, progress_};
  if (!flights_.empty() && Clock::now() - flights_.begin()->second.since > patience)
    return {"waits on its device in " + flights_.begin()->second.operation, true, progress_};
  if (!joined_) return {"joins the world", false, progress_};
  if (last_issued_.empty()) return {"computes, before its first collective", false, progress_};
  return {"computes, after " + last_issued_, false, progress_};
}

}  // namespace shade::comm
