#include "shade/profile/phases.h"

#include <algorithm>
#include <vector>

#include "shade/profile/memory.h"

namespace shade::profile {

Phases::Phases(c10::Device device) : device_(device) {
  restart();
  previous_ = Span::listen(this);
}

Phases::~Phases() {
  Span::listen(previous_);
  if (previous_ == nullptr) TensorMemory::forget_units();
}

void Phases::in_unit(const UnitSpan* owner, int64_t unit) noexcept {
  TensorMemory::in_unit(owner, unit);
  if (previous_ != nullptr) previous_->in_unit(owner, unit);
}

std::optional<c10::Event> Phases::try_mark() const noexcept {
  try {
    return mark();
  } catch (const std::exception&) {  // a failed device, which the next wait on it reports
    return std::nullopt;
  }
}

c10::Event Phases::mark() const {
  c10::Event event(device_.type(), c10::EventFlag::BACKEND_DEFAULT);  // with its time
  event.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  return event;
}

void Phases::began(const SpanRecord& record) noexcept {
  if (!device_.is_cpu()) {
    auto here = try_mark();
    const std::lock_guard lock(mutex_);
    if (here) begun_.insert_or_assign(record.owner, std::move(*here));
  }
  if (previous_ != nullptr) previous_->began(record);
}

void Phases::ended(const SpanRecord& record) noexcept {
  {
    const std::lock_guard lock(mutex_);
    records_.push_back(record);
    if (auto begun = begun_.extract(record.owner))
      if (auto here = try_mark()) timed_.push_back({records_.size() - 1, std::move(begun.mapped()), std::move(*here)});
  }
  if (previous_ != nullptr) previous_->ended(record);
}

void Phases::restart() {
  const std::lock_guard lock(mutex_);
  records_.clear();
  timed_.clear();
  if (device_.is_cpu()) return;
  origin_ = mark();
  origin_at_ = Clock::now();
}

// Under the lock.
void Phases::settle() const {
  for (const auto& [record, begin, end] : timed_) {
    end.synchronize();
    const auto at = [&](const c10::Event& event) {
      return origin_at_ + std::chrono::duration_cast<Clock::duration>(Millis(origin_->elapsedTime(event)));
    };
    records_[record].begin = at(begin);
    records_[record].end = at(end);
  }
  timed_.clear();
}

std::map<std::string, Millis> Phases::by_name() const {
  const std::lock_guard lock(mutex_);
  settle();
  std::map<std::string, Millis> out;
  for (const auto& record : records_) out[to_string(record.name)] += record.end - record.begin;
  return out;
}

std::map<int64_t, Millis> Phases::by_index(SpanName name) const {
  const std::lock_guard lock(mutex_);
  settle();
  std::map<int64_t, Millis> out;
  for (const auto& record : records_)
    if (name == record.name) out[record.index] += record.end - record.begin;
  return out;
}

std::vector<SpanRecord> Phases::records() const {
  const std::lock_guard lock(mutex_);
  settle();
  return records_;
}

OwnTimes own_times(std::span<const SpanRecord> records) {
  std::vector<SpanRecord> spans;
  for (auto record = records.rbegin(); record != records.rend(); ++record)
    if (!is_unit(record->name)) spans.push_back(*record);
  // The outer one first: of two with the same times the one that ended last. Spans of other threads that only overlap
  // are part of none.
  std::stable_sort(spans.begin(), spans.end(),
                   [](const auto& a, const auto& b) { return a.begin != b.begin ? a.begin < b.begin : a.end > b.end; });
  OwnTimes out;
  std::vector<SpanRecord> around;
  for (const auto& span : spans) {
    while (!around.empty() && around.back().end < span.end) around.pop_back();
    const bool part = !around.empty();
    if (part && is_wait(around.back().name) && is_wait(span.name)) continue;
    const Millis time = span.end - span.begin;
    out.phases[to_string(span.name)] += time;
    if (part) out.phases[to_string(around.back().name)] -= time;
    if (is_wait(span.name)) out.waits[to_string(part ? around.front().name : SpanName::other)] += time;
    around.push_back(span);
  }
  return out;
}

}  // namespace shade::profile
