// Every byte of every CPU tensor: a wrapper around libtorch's allocator that counts.
#pragma once

#include <array>
#include <vector>

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
  const char* phase = nullptr;   // the outermost span: forward, first_backward, optimizer, ...
  const char* within = nullptr;  // the innermost one, if it is another: norm, gather_wait, ...
  int64_t index = -1;            // of that one: a weight, a unit
  int64_t unit = -1;
  MemoryKind kind = MemoryKind::other;  // what the allocation that made the peak was for
  Bytes bytes;                          // its size
};

struct MemoryPoint {
  Clock::time_point at;
  MemoryBreakdown memory;
};

// Process-wide, thread-safe. Counting costs a lock and a map's entry per allocation.
class TensorMemory {
 public:
  // Tensors allocated from now on are counted until they are freed. Once per process, before the first tensor that
  // should count; later calls do nothing.
  static void track();
  // Tensors on meta, which have sizes and no memory, are counted from now on as if they had some: what a plan of a run
  // listens to.
  static void track_meta();

  static Bytes current();
  static Bytes peak();     // since the last reset
  static Bytes average();  // over the time since the last restart
  static MemoryBreakdown breakdown();
  static MemoryBreakdown peak_breakdown();
  static MemoryBreakdown most();  // each kind at its own highest moment since the last reset; they don't add up
  static PeakPlace peak_place();
  static void reset_peak();  // to current()

  // The course of memory from now on: a point whenever the total has changed by more than a 400th of the peak. Too many
  // are thinned, the higher of two stays; so it is never longer than a few thousand points.
  static void record_course();
  static std::vector<MemoryPoint> take_course();  // ends the recording
  static void restart_average();

  // The listener to spans says which unit of whose model a thread works for: an allocation counts for its own thread's,
  // or for the only one there is. Unit -1: left.
  static void in_unit(const UnitSpan* owner, int64_t unit) noexcept;
  static void forget_units() noexcept;  // the last listener is gone: no call would say that one is left

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

// Every allocation of tensors on meta in its order: what a model of an allocator replays.
struct Allocation {
  const void* storage;  // the same when it is freed; used again by later ones
  Bytes size;           // 0: freed
};

// Process-wide, while it lives. TensorMemory::track_meta() must have been called.
class AllocationRecord {
 public:
  AllocationRecord();
  ~AllocationRecord();
  AllocationRecord(const AllocationRecord&) = delete;
  AllocationRecord& operator=(const AllocationRecord&) = delete;

  std::vector<Allocation> take();  // since the last call
};

}  // namespace shade::profile
