#include "shade/profile/memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>

#include "shade/base/error.h"

namespace shade::profile {
namespace {

PeakPlace place_of(Bytes bytes, MemoryKind kind, int64_t unit) {
  PeakPlace place{.phase = Span::phase(), .unit = unit, .kind = kind, .bytes = bytes};
  for (const auto* span = Span::innermost(); span != nullptr; span = span->outer()) {
    place.phase = span->name();
    if (span != Span::innermost()) continue;
    place.within = span->name();
    place.index = span->index();
  }
  if (place.within == place.phase) place.within = SpanName::other;
  return place;
}

constexpr size_t kLongestCourse = 4096;

}  // namespace

void MemoryBook::put(const void* address, int64_t bytes) {
  const auto kind = MemoryScope::current();
  const std::lock_guard lock(mutex_);
  live_[address] = {bytes, kind};
  pass();
  now_.total.count += bytes;
  add(kind, bytes);
  if (now_.total.count > peak_.total.count) {
    peak_ = now_;
    place_ = place_of({bytes}, kind, unit_here());
  }
  follow();
}

bool MemoryBook::take(const void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(address);
  if (found == live_.end()) return false;
  const auto [bytes, kind] = found->second;
  pass();
  now_.total.count -= bytes;
  now_.of(kind).count -= bytes;
  live_.erase(found);
  follow();
  return true;
}

void MemoryBook::retag(const void* address, MemoryKind kind) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(address);
  if (found == live_.end()) return;
  now_.of(found->second.kind).count -= found->second.bytes;
  add(kind, found->second.bytes);
  found->second.kind = kind;
}

void MemoryBook::in_unit(const UnitSpan* owner, int64_t unit) {
  const std::lock_guard lock(mutex_);
  std::erase_if(units_, [&](const InUnit& known) { return known.owner == owner; });
  if (unit >= 0) units_.push_back({owner, std::this_thread::get_id(), unit});
}

void MemoryBook::forget_units() {
  const std::lock_guard lock(mutex_);
  units_.clear();
}

MemoryBreakdown MemoryBook::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

MemoryBreakdown MemoryBook::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

MemoryBreakdown MemoryBook::most() const {
  const std::lock_guard lock(mutex_);
  auto most = most_;
  most.total = peak_.total;
  return most;
}

PeakPlace MemoryBook::place() const {
  const std::lock_guard lock(mutex_);
  return place_;
}

void MemoryBook::record_course() {
  const std::lock_guard lock(mutex_);
  following_ = true;
  apart_ = peak_.total.count / 400;
  seen_ = now_.total.count;
  stride_ = 1;
  window_ = 0;
  course_ = {{Clock::now(), now_}};
}

std::vector<MemoryPoint> MemoryBook::take_course() {
  const std::lock_guard lock(mutex_);
  following_ = false;
  if (window_ > 0) course_.push_back(highest_);
  window_ = 0;
  course_.push_back({Clock::now(), now_});
  return std::exchange(course_, {});
}

Bytes MemoryBook::average() {
  const std::lock_guard lock(mutex_);
  pass();
  const double seconds = Seconds(changed_ - begun_).count();
  return seconds > 0 ? Bytes{static_cast<int64_t>(byte_seconds_ / seconds)} : now_.total;
}

void MemoryBook::reset_peak() {
  const std::lock_guard lock(mutex_);
  peak_ = most_ = now_;
  place_ = {};
}

void MemoryBook::restart_average() {
  const std::lock_guard lock(mutex_);
  begun_ = changed_ = Clock::now();
  byte_seconds_ = 0;
}

// A thread that entered none (a kernel's, a collective's) works for the only unit there is, if there is only one.
int64_t MemoryBook::unit_here() const {
  for (const auto& known : units_)
    if (known.thread == std::this_thread::get_id()) return known.unit;
  return units_.size() == 1 ? units_.front().unit : -1;
}

void MemoryBook::add(MemoryKind kind, int64_t bytes) {
  auto &now = now_.of(kind), &most = most_.of(kind);
  now.count += bytes;
  most = std::max(most, now);
}

// What was held until now, for how long.
void MemoryBook::pass() {
  const auto now = Clock::now();
  byte_seconds_ += static_cast<double>(now_.total.count) * Seconds(now - changed_).count();
  changed_ = now;
}

// Of every `stride_` changes the highest is kept.
void MemoryBook::follow() {
  if (!following_ || std::abs(now_.total.count - seen_) <= apart_) return;
  seen_ = now_.total.count;
  if (window_++ == 0 || now_.total > highest_.memory.total) highest_ = {changed_, now_};
  if (window_ < stride_) return;
  window_ = 0;
  course_.push_back(highest_);
  if (course_.size() < kLongestCourse) return;
  stride_ *= 2;
  for (size_t i = 0; i < course_.size() / 2; ++i) {
    const auto &a = course_[2 * i], &b = course_[2 * i + 1];
    course_[i] = a.memory.total < b.memory.total ? b : a;
  }
  course_.resize(course_.size() / 2);
}

void MemoryBook::meta_changed(const void* storage, Bytes size) {
  const std::lock_guard lock(mutex_);
  if (listing_) allocations_.push_back({storage, size});
}

void MemoryBook::record_allocations() {
  const std::lock_guard lock(mutex_);
  listing_ = true;
  allocations_.clear();
}

std::vector<Allocation> MemoryBook::take_allocations() {
  const std::lock_guard lock(mutex_);
  return std::exchange(allocations_, {});
}

namespace {

MemoryBook& book() {
  static auto* const instance = new MemoryBook;  // outlives every tensor, static ones included
  return *instance;
}

MemoryObserver* observer_here() {
  const auto* here = Execution::here();
  return here == nullptr ? nullptr : here->memory.get();
}

c10::DeleterFnPtr inner_deleter = nullptr;
thread_local bool counts = true;

void release(void* address) {
  if (address == nullptr) return;
  if (auto* const own = observer_here(); own == nullptr || !own->take(address)) book().take(address);
  inner_deleter(address);
}

class Counting final : public c10::Allocator {
 public:
  explicit Counting(c10::Allocator* inner) : inner_(inner) {
    inner_deleter = inner->raw_deleter();
    SHADE_CHECK(inner_deleter != nullptr, "libtorch's CPU allocator can't be wrapped: its context is not the address");
  }

  c10::DataPtr allocate(size_t bytes) override {
    auto data = inner_->allocate(bytes);
    const auto device = data.device();
    auto* address = data.release_context();
    if (address == nullptr) return {nullptr, device};
    if (counts) {
      auto* const own = observer_here();
      (own != nullptr ? *own : book()).put(address, static_cast<int64_t>(bytes));
    }
    return {address, address, &release, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { inner_->copy_data(to, from, bytes); }

 private:
  c10::Allocator* inner_;
};

// A storage on meta has no address; its context stands for one.
struct MetaStorage {
  std::shared_ptr<MemoryObserver> observer;
};

void release_meta(void* context) {
  const std::unique_ptr<MetaStorage> storage(static_cast<MetaStorage*>(context));
  storage->observer->take(context);
  storage->observer->meta_changed(context, {});
}

class CountingMeta final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const auto* here = Execution::here();
    if (bytes == 0 || !counts || here == nullptr || here->memory == nullptr)
      return {nullptr, nullptr, &c10::detail::deleteNothing, c10::Device(c10::kMeta)};
    if (here->deadline && Clock::now() > *here->deadline) throw Error("the dry run takes too long");
    auto* const context = new MetaStorage{here->memory};
    here->memory->put(context, static_cast<int64_t>(bytes));
    here->memory->meta_changed(context, Bytes{static_cast<int64_t>(bytes)});
    return {nullptr, context, &release_meta, c10::Device(c10::kMeta)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }  // the address is not the context
  void copy_data(void*, const void*, size_t) const override {}
};

void listen_to_uses() {
  MemoryUse::listen([](const void* address, MemoryKind kind) {
    auto* const own = dynamic_cast<MemoryBook*>(observer_here());
    (own != nullptr ? *own : book()).retag(address, kind);
  });
}

}  // namespace

void TensorMemory::track_meta() {
  static std::once_flag once;
  std::call_once(once, [] {
    static CountingMeta counting;
    c10::SetAllocator(c10::kMeta, &counting, /*priority=*/100);
    listen_to_uses();
  });
}

void TensorMemory::track() {
  static std::once_flag once;
  std::call_once(once, [] {
    static Counting counting(c10::GetCPUAllocator());
    c10::SetCPUAllocator(&counting, /*priority=*/100);
    listen_to_uses();
  });
}

Bytes TensorMemory::current() { return book().now().total; }
Bytes TensorMemory::peak() { return book().peak().total; }
Bytes TensorMemory::average() { return book().average(); }
MemoryBreakdown TensorMemory::breakdown() { return book().now(); }
MemoryBreakdown TensorMemory::peak_breakdown() { return book().peak(); }
MemoryBreakdown TensorMemory::most() { return book().most(); }
PeakPlace TensorMemory::peak_place() { return book().place(); }
void TensorMemory::record_course() { book().record_course(); }
std::vector<MemoryPoint> TensorMemory::take_course() { return book().take_course(); }
void TensorMemory::reset_peak() { book().reset_peak(); }
void TensorMemory::in_unit(const UnitSpan* owner, int64_t unit) noexcept { book().in_unit(owner, unit); }
void TensorMemory::forget_units() noexcept { book().forget_units(); }
void TensorMemory::restart_average() { book().restart_average(); }

TensorMemory::Uncounted::Uncounted() : before_(std::exchange(counts, false)) {}
TensorMemory::Uncounted::~Uncounted() { counts = before_; }

Seconds process_cpu_time() {
  timespec now{};
  SHADE_CHECK(::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0, "this system keeps no CPU time of processes");
  return Seconds(static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec));
}

ProcessMemory process_memory() {
  ProcessMemory memory;
  std::ifstream in("/proc/self/status");
  SHADE_CHECK(in, "cannot read /proc/self/status");
  std::string key;
  int64_t kib = 0;
  while (in >> key) {
    if (key == "VmRSS:" && in >> kib) memory.resident = KiB(kib);
    if (key == "VmHWM:" && in >> kib) memory.peak_resident = KiB(kib);
    if (key == "RssAnon:" && in >> kib) memory.anonymous = KiB(kib);
    in.ignore(1 << 16, '\n');
  }
  return memory;
}

}  // namespace shade::profile
