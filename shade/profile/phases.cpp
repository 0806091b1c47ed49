#include "shade/profile/phases.h"

#include "shade/profile/memory.h"

namespace shade::profile {

Phases::~Phases() {
  Span::listen(previous_);
  if (previous_ == nullptr) TensorMemory::forget_units();
}

void Phases::in_unit(const UnitSpan* owner, int64_t unit) noexcept {
  TensorMemory::in_unit(owner, unit);
  if (previous_ != nullptr) previous_->in_unit(owner, unit);
}

void Phases::ended(const SpanRecord& record) noexcept {
  {
    const std::lock_guard lock(mutex_);
    records_.push_back(record);
  }
  if (previous_ != nullptr) previous_->ended(record);
}

void Phases::restart() {
  const std::lock_guard lock(mutex_);
  records_.clear();
}

std::map<std::string, Millis> Phases::by_name() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, Millis> out;
  for (const auto& record : records_) out[record.name] += record.end - record.begin;
  return out;
}

std::map<int64_t, Millis> Phases::by_index(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  std::map<int64_t, Millis> out;
  for (const auto& record : records_)
    if (name == record.name) out[record.index] += record.end - record.begin;
  return out;
}

std::vector<SpanRecord> Phases::records() const {
  const std::lock_guard lock(mutex_);
  return records_;
}

}  // namespace shade::profile
