#include "shade/profile/heap.h"

#include <malloc.h>

#include <cstddef>

// jemalloc's, where it is linked.
extern "C" int mallctl(const char* name, void* out, size_t* out_size, void* in, size_t in_size) __attribute__((weak));

namespace shade::profile {

Bytes heap_reserved() {
  if (mallctl != nullptr) {
    size_t epoch = 1, resident = 0, size = sizeof(size_t);
    mallctl("epoch", nullptr, nullptr, &epoch, sizeof epoch);  // statistics are of the last epoch
    if (mallctl("stats.resident", &resident, &size, nullptr, 0) == 0) return {static_cast<int64_t>(resident)};
  }
  const auto heap = ::mallinfo2();
  return {static_cast<int64_t>(heap.arena + heap.hblkhd)};
}

void return_unused_heap() {
  if (mallctl != nullptr)
    mallctl("arena.4096.purge", nullptr, nullptr, nullptr, 0);  // 4096: MALLCTL_ARENAS_ALL
  else
    ::malloc_trim(0);
}

}  // namespace shade::profile
