// Spans: named stretches of time that any module may mark, with or without a listener.
//
//   Span span(SpanName::forward);      // ends with the scope
//
// Without a listener a span costs one relaxed load. The listener is attached from outside (profile/), so no module
// calls the profiler by name.
#pragma once

#include <atomic>
#include <cstdint>

#include "shade/base/execution.h"
#include "shade/base/names.h"
#include "shade/base/units.h"

namespace shade {

// All spans that there are. Result files, pages and traces know them by these names.
enum class SpanName : uint8_t {
  other,  // in no span
  data,
  forward,
  backward,
  first_backward,
  second_backward,
  unit_forward,
  unit_backward,
  norm,
  coefficients,
  sample_gradients,
  second_phase,
  gather_wait,
  reduce_wait,
  reduce,
  noise,
  optimizer,
  hash,
  comm_wait,
  exchange,
  control_wait,     // of a plan: what is agreed upon between hosts
  collective_wait,  // of a plan: neither a gather nor a reduction
  evaluate,
  ledger,
  save,
  save_copy,
  save_file,
  save_manifest,
  save_rename,
  save_latest,
  save_prune,
};
inline std::span<const Name<SpanName>> names_of(SpanName) {
  static constexpr Name<SpanName> kNames[] = {{"other", SpanName::other},
                                              {"data", SpanName::data},
                                              {"forward", SpanName::forward},
                                              {"backward", SpanName::backward},
                                              {"first_backward", SpanName::first_backward},
                                              {"second_backward", SpanName::second_backward},
                                              {"unit_forward", SpanName::unit_forward},
                                              {"unit_backward", SpanName::unit_backward},
                                              {"norm", SpanName::norm},
                                              {"coefficients", SpanName::coefficients},
                                              {"sample_gradients", SpanName::sample_gradients},
                                              {"second_phase", SpanName::second_phase},
                                              {"gather_wait", SpanName::gather_wait},
                                              {"reduce_wait", SpanName::reduce_wait},
                                              {"reduce", SpanName::reduce},
                                              {"noise", SpanName::noise},
                                              {"optimizer", SpanName::optimizer},
                                              {"hash", SpanName::hash},
                                              {"comm_wait", SpanName::comm_wait},
                                              {"exchange", SpanName::exchange},
                                              {"control_wait", SpanName::control_wait},
                                              {"collective_wait", SpanName::collective_wait},
                                              {"evaluate", SpanName::evaluate},
                                              {"ledger", SpanName::ledger},
                                              {"save", SpanName::save},
                                              {"save_copy", SpanName::save_copy},
                                              {"save_file", SpanName::save_file},
                                              {"save_manifest", SpanName::save_manifest},
                                              {"save_rename", SpanName::save_rename},
                                              {"save_latest", SpanName::save_latest},
                                              {"save_prune", SpanName::save_prune}};
  return kNames;
}

// A unit of the model is part of forward and backward.
constexpr bool is_unit(SpanName name) { return name == SpanName::unit_forward || name == SpanName::unit_backward; }
constexpr bool is_wait(SpanName name) {
  return name == SpanName::gather_wait || name == SpanName::reduce_wait || name == SpanName::comm_wait ||
         name == SpanName::control_wait || name == SpanName::collective_wait;
}
// What a span's index is the number of.
constexpr bool counts_units(SpanName name) {
  return is_unit(name) || name == SpanName::gather_wait || name == SpanName::reduce_wait;
}
constexpr bool counts_weights(SpanName name) { return name == SpanName::norm || name == SpanName::sample_gradients; }

struct SpanRecord {
  SpanName name;
  int64_t index;  // which unit, which weight; -1: none
  Clock::time_point begin;
  Clock::time_point end;
  const void* owner = nullptr;  // the Span or UnitSpan: the same when it begins and ends
};

class UnitSpan;

// `ended` is called on the thread that ends the span; must be thread-safe and must not throw.
class SpanListener {
 public:
  virtual ~SpanListener() = default;
  virtual void ended(const SpanRecord& record) noexcept = 0;
  virtual void began(const SpanRecord& /*record*/) noexcept {}  // on the thread that begins it; its end is not known
  // This thread entered a unit of the model that `owner` runs, or (-1) left it.
  virtual void in_unit(const UnitSpan* /*owner*/, int64_t /*unit*/) noexcept {}
};

class Span {
 public:
  explicit Span(SpanName name, int64_t index = -1) noexcept
      : listener_(heard_by()), record_{name, index, {}, {}, this} {
    if (listener_ == nullptr) return;
    outer_ = innermost_;
    innermost_ = this;
    if (outer_ == nullptr && Execution::here() == nullptr) before_ = phase_.exchange(name, std::memory_order_relaxed);
    record_.begin = Clock::now();
    listener_->began(record_);
  }
  ~Span() {
    if (listener_ == nullptr) return;
    record_.end = Clock::now();
    innermost_ = outer_;
    if (outer_ == nullptr && Execution::here() == nullptr) phase_.store(before_, std::memory_order_relaxed);
    listener_->ended(record_);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  // Who hears of all spans of the process, but those of a thread that has an Execution: gradients of an
  // accelerator come from threads of autograd's, so a listener can't be found by thread. It must outlive every span
  // that began while it was attached. Returns the previous one.
  static SpanListener* listen(SpanListener* listener) noexcept { return current.exchange(listener); }

  // Where this thread is, from the inside out; null: in no span that anybody listens to.
  static const Span* innermost() noexcept { return innermost_; }
  // The last outermost span that began on any thread: what a thread without spans of its own works for.
  static SpanName phase() noexcept { return phase_.load(std::memory_order_relaxed); }
  const Span* outer() const noexcept { return outer_; }
  SpanName name() const noexcept { return record_.name; }
  int64_t index() const noexcept { return record_.index; }

 private:
  friend class UnitSpan;
  static SpanListener* heard_by() noexcept {
    const auto* here = Execution::here();
    return here != nullptr ? here->spans : current.load(std::memory_order_acquire);
  }
  inline static std::atomic<SpanListener*> current{nullptr};
  inline static thread_local const Span* innermost_ = nullptr;
  inline static std::atomic<SpanName> phase_{SpanName::other};
  SpanListener* listener_;
  const Span* outer_ = nullptr;
  SpanName before_ = SpanName::other;
  SpanRecord record_;
};

// A span that no scope of the code holds: a unit of the model is entered by one call and left by another, on whatever
// thread autograd chose. One at a time; units that nest count as the outer one.
class UnitSpan {
 public:
  UnitSpan() = default;
  ~UnitSpan() { reset(); }
  UnitSpan(const UnitSpan&) = delete;
  UnitSpan& operator=(const UnitSpan&) = delete;

  void enter(SpanName name, int64_t unit) noexcept {
    if (depth_++ > 0) return;
    auto* const listener = Span::heard_by();
    if (listener == nullptr) return;
    record_ = {name, unit, Clock::now(), {}, this};
    listener->in_unit(this, unit);
    listener->began(record_);
  }
  void leave() noexcept {
    if (depth_ == 0 || --depth_ > 0 || record_.index < 0) return;
    record_.end = Clock::now();
    if (auto* const listener = Span::heard_by()) listener->ended(record_);
    reset();
  }
  void reset() noexcept {  // a pass that was given up leaves units entered
    depth_ = 0;
    if (record_.index < 0) return;
    record_.index = -1;
    if (auto* const listener = Span::heard_by()) listener->in_unit(this, -1);
  }

 private:
  int depth_ = 0;
  SpanRecord record_{SpanName::other, -1, {}, {}, nullptr};
};

}  // namespace shade
