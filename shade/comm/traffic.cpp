#include "shade/comm/traffic.h"

namespace shade::comm {

void TrafficLog::Entry::started(Clock::time_point at) {
  const std::lock_guard lock(mutex_);
  record_.started = at;
}

void TrafficLog::Entry::ended(Clock::time_point at, Bytes wire) {
  const std::lock_guard lock(mutex_);
  record_.ended = at;
  record_.wire = wire;
}

void TrafficLog::Entry::waited(Seconds time) {
  const std::lock_guard lock(mutex_);
  record_.waited += time;
}

TrafficRecord TrafficLog::Entry::copy() const {
  const std::lock_guard lock(mutex_);
  return record_;
}

std::shared_ptr<TrafficLog::Entry> TrafficLog::add(TrafficRecord record) {
  auto entry = std::make_shared<Entry>();
  entry->record_ = std::move(record);
  const std::lock_guard lock(mutex_);
  entries_.push_back(entry);
  if (entries_.size() > capacity_) {
    entries_.pop_front();
    ++dropped_;
  }
  return entry;
}

std::vector<TrafficRecord> TrafficLog::drain() {
  const std::lock_guard lock(mutex_);
  std::vector<TrafficRecord> finished;
  std::deque<std::shared_ptr<Entry>> open;
  for (auto& entry : entries_) {
    auto record = entry->copy();
    if (record.finished())
      finished.push_back(std::move(record));
    else
      open.push_back(std::move(entry));
  }
  entries_ = std::move(open);
  return finished;
}

size_t TrafficLog::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

}  // namespace shade::comm
