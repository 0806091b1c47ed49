// Every byte of every CPU tensor: a wrapper around libtorch's allocator that counts.
#pragma once

#include <array>

#include "shade/base/memory_scope.h"
#include "shade/base/units.h"

namespace shade::profile {

// Bytes by what they are for (base/memory_scope.h). The kinds add up to the total.
struct MemoryBreakdown {
  Bytes total;
  std::array<Bytes, kMemoryKinds> kinds{};

  Bytes& of(MemoryKind kind) { return kinds[static_cast<size_t>(kind)]; }
  Bytes of(MemoryKind kind) const { return kinds[static_cast<size_t>(kind)]; }
};

// Process-wide, thread-safe. Counting costs a lock and a map's entry per allocation.
class TensorMemory {
 public:
  // Tensors allocated from now on are counted until they are freed. Once per process, before the first tensor that
  // should count; later calls do nothing.
  static void track();

  static Bytes current();
  static Bytes peak();     // since the last reset
  static Bytes average();  // over the time since the last restart
  static MemoryBreakdown breakdown();
  static MemoryBreakdown peak_breakdown();
  static void reset_peak();  // to current()
  static void restart_average();
};

// What the operating system says of this process.
struct ProcessMemory {
  Bytes resident, peak_resident;  // pages of mapped files included
  Bytes anonymous;                // the part of resident that no file backs
};
ProcessMemory process_memory();

Seconds process_cpu_time();  // of all threads, in user and kernel mode

}  // namespace shade::profile
