// Every byte of every CPU tensor: a wrapper around libtorch's allocator that counts.
#pragma once

#include <array>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "shade/base/execution.h"
#include "shade/base/memory_scope.h"
#include "shade/base/span.h"
#include "shade/base/units.h"

namespace shade::profile {

// Bytes by what they are for (base/memory_scope.h). The kinds add up to the total.
struct MemoryBreakdown {
  Bytes total;
  std::array<Bytes, kMemoryKinds> kinds{};

  Bytes& of(MemoryKind kind) { return kinds[static_cast<size_t>(kind)]; }
  Bytes of(MemoryKind kind) const { return kinds[static_cast<size_t>(kind)]; }
};

// Where the program was when the peak was reached. Spans and units are known while somebody listens to spans.
struct PeakPlace {
  SpanName phase = SpanName::other;   // the outermost span
  SpanName within = SpanName::other;  // the innermost one, if it is another
  int64_t index = -1;                 // of the innermost one: a weight, a unit
  int64_t unit = -1;
  MemoryKind kind = MemoryKind::other;  // what the allocation that made the peak was for
  Bytes bytes;                          // its size
};

struct MemoryPoint {
  Clock::time_point at;
  MemoryBreakdown memory;
};

// Every allocation of tensors on meta in its order: what a model of an allocator replays.
struct Allocation {
  const void* storage;  // the same when it is freed; used again by later ones
  Bytes size;           // 0: freed
};

// Live allocations by address, and their sums. Some kernels take raw memory from the allocator and hand back the bare
// address, so size and kind can't travel with the pointer. Thread-safe.
class MemoryBook final : public MemoryObserver {
 public:
  void put(const void* address, int64_t bytes) override;
  bool take(const void* address) override;
  void meta_changed(const void* storage, Bytes size) override;
  void retag(const void* address, MemoryKind kind);
  // The listener to spans says which unit of whose model a thread works for: an allocation counts for its own thread's,
  // or for the only one there is. Unit -1: left.
  void in_unit(const UnitSpan* owner, int64_t unit);
  void forget_units();  // the last listener is gone: no call would say that one is left

  MemoryBreakdown now() const;
  MemoryBreakdown peak() const;  // since the last reset
  MemoryBreakdown most() const;  // each kind at its own highest moment since the last reset; they don't add up
  PeakPlace place() const;
  void reset_peak();  // to now()
  Bytes average();    // over the time since the last restart
  void restart_average();
  // The course of memory from now on: a point whenever the total has changed by more than a 400th of the peak. Too many
  // are thinned, the higher of two stays; so it is never longer than a few thousand points.
  void record_course();
  std::vector<MemoryPoint> take_course();      // ends the recording
  void record_allocations();                   // on meta, from now on
  std::vector<Allocation> take_allocations();  // since the last call

 private:
  struct Entry {
    int64_t bytes = 0;
    MemoryKind kind = MemoryKind::other;
  };
  struct InUnit {
    const UnitSpan* owner;
    std::thread::id thread;
    int64_t unit;
  };
  int64_t unit_here() const;
  void add(MemoryKind kind, int64_t bytes);
  void pass();
  void follow();

  mutable std::mutex mutex_;
  std::unordered_map<const void*, Entry> live_;
  MemoryBreakdown now_, peak_, most_;
  Clock::time_point begun_ = Clock::now(), changed_ = begun_;
  double byte_seconds_ = 0;
  PeakPlace place_;
  std::vector<InUnit> units_;  // of every model that is in one
  bool following_ = false;
  int64_t apart_ = 0, seen_ = 0;
  size_t stride_ = 1, window_ = 0;
  MemoryPoint highest_;  // of the window
  std::vector<MemoryPoint> course_;
  bool listing_ = false;
  std::vector<Allocation> allocations_;
};

// The process's book, of all tensors but those that a thread with an Execution makes (base/execution.h):
// libtorch has one allocator for each kind of device, and tensors are freed on whatever thread. Counting costs a lock
// and a map's entry per allocation.
class TensorMemory {
 public:
  // Tensors allocated from now on are counted until they are freed. Once per process, before the first tensor that
  // should count; later calls do nothing.
  static void track();
  // Tensors on meta, which have sizes and no memory, are told from now on to the observer of the thread's Execution, as
  // if they had some. Without one they count nowhere.
  static void track_meta();

  static Bytes current();
  static Bytes peak();     // since the last reset
  static Bytes average();  // over the time since the last restart
  static MemoryBreakdown breakdown();
  static MemoryBreakdown peak_breakdown();
  static MemoryBreakdown most();  // each kind at its own highest moment since the last reset; they don't add up
  static PeakPlace peak_place();
  static void reset_peak();  // to current()

  static void record_course();
  static std::vector<MemoryPoint> take_course();
  static void restart_average();
  static void in_unit(const UnitSpan* owner, int64_t unit) noexcept;
  static void forget_units() noexcept;

  // What this thread allocates meanwhile counts nowhere: tensors of a probe, which are no part of a run.
  class Uncounted {
   public:
    Uncounted();
    ~Uncounted();
    Uncounted(const Uncounted&) = delete;
    Uncounted& operator=(const Uncounted&) = delete;

   private:
    bool before_;
  };
};

// What the operating system says of this process.
struct ProcessMemory {
  Bytes resident, peak_resident;  // pages of mapped files included
  Bytes anonymous;                // the part of resident that no file backs
};
ProcessMemory process_memory();

Seconds process_cpu_time();  // of all threads, in user and kernel mode

}  // namespace shade::profile
