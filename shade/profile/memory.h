// Every byte of every CPU tensor: a wrapper around libtorch's allocator that counts.
#pragma once

#include "shade/base/units.h"

namespace shade::profile {

// Process-wide, thread-safe. Counting costs a few atomic operations per allocation.
class TensorMemory {
 public:
  // Tensors allocated from now on are counted until they are freed. Once per process, before the first tensor that
  // should count; later calls do nothing.
  static void track();

  static Bytes current();
  static Bytes peak();       // since the last reset
  static void reset_peak();  // to current()
};

// What the operating system says of this process.
struct ProcessMemory {
  Bytes resident, peak_resident;  // pages of mapped files included
  Bytes anonymous;                // the part of resident that no file backs
};
ProcessMemory process_memory();

}  // namespace shade::profile
