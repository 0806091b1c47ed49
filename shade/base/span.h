// Spans: named stretches of time that any room may mark and nobody has to listen to.
//
//   Span span("forward", unit);      // ends with the scope
//
// Without a listener a span costs one relaxed load. The listener is attached from outside (profile/), so no room
// calls the profiler by name.
#pragma once

#include <atomic>
#include <cstdint>

#include "shade/base/units.h"

namespace shade {

struct SpanRecord {
  const char* name;  // a literal
  int64_t index;     // which unit, layer, step; -1: none
  Clock::time_point begin;
  Clock::time_point end;
};

// Called on the thread that ends the span; must be thread-safe and must not throw.
class SpanListener {
 public:
  virtual ~SpanListener() = default;
  virtual void ended(const SpanRecord& record) noexcept = 0;
};

class Span {
 public:
  explicit Span(const char* name, int64_t index = -1) noexcept
      : listener_(current.load(std::memory_order_acquire)), record_{name, index, {}, {}} {
    if (listener_ != nullptr) record_.begin = Clock::now();
  }
  ~Span() {
    if (listener_ == nullptr) return;
    record_.end = Clock::now();
    listener_->ended(record_);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  // The listener must outlive every span begun while it was attached. Returns the previous one.
  static SpanListener* listen(SpanListener* listener) noexcept { return current.exchange(listener); }

 private:
  inline static std::atomic<SpanListener*> current{nullptr};
  SpanListener* listener_;
  SpanRecord record_;
};

}  // namespace shade
