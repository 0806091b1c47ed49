#include "shade/profile/phases.h"

namespace shade::profile {

void Phases::ended(const SpanRecord& record) noexcept {
  {
    const std::lock_guard lock(mutex_);
    sums_[{record.name, record.index}] += Millis(record.end - record.begin);
  }
  if (previous_ != nullptr) previous_->ended(record);
}

void Phases::restart() {
  const std::lock_guard lock(mutex_);
  sums_.clear();
}

std::map<std::string, Millis> Phases::by_name() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, Millis> out;
  for (const auto& [key, time] : sums_) out[key.first] += time;
  return out;
}

std::map<int64_t, Millis> Phases::by_index(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  std::map<int64_t, Millis> out;
  for (const auto& [key, time] : sums_)
    if (key.first == name) out[key.second] += time;
  return out;
}

}  // namespace shade::profile
