// A model of the caching allocator by which libtorch hands out the memory of a GPU, with its default settings: what is
// reserved from the driver beyond what tensors need.
//
//   rounding   a request is rounded up to 512 B
//   pools      up to 1 MiB from segments of 2 MiB; below 10 MiB from segments of 20 MiB; each larger one gets
//              its own segment, rounded up to 2 MiB
//   best fit   the smallest free block of the pool that is large enough, the lowest address of equals
//   splitting  the rest stays free if it has 512 B in the small pool, more than 1 MiB in the large one
//   freeing    a block is joined with free neighbours of its segment; segments stay reserved until memory runs out,
//              when all that are free as a whole go back
// One stream: blocks of several streams don't mix, and the buffers of collectives have streams of their own.
#pragma once

#include <list>
#include <set>
#include <span>
#include <unordered_map>

#include "shade/profile/memory.h"

namespace shade::plan {

class CachingAllocator {
 public:
  explicit CachingAllocator(Bytes capacity) : capacity_(capacity) {}  // of the device
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  bool allocate(const void* storage, Bytes size);  // false: out of memory
  void free(const void* storage);                  // unknown ones are ignored

  Bytes allocated() const { return allocated_; }  // with rounding
  Bytes reserved() const { return reserved_; }
  Bytes peak_allocated() const { return peak_allocated_; }
  Bytes peak_reserved() const { return peak_reserved_; }

 private:
  struct Block {
    int64_t segment, begin, size;
    bool small, used;
  };
  using Blocks = std::list<Block>;  // neighbours of a segment are neighbours here
  struct Smaller {
    bool operator()(const Blocks::iterator& a, const Blocks::iterator& b) const;
  };
  using Pool = std::set<Blocks::iterator, Smaller>;  // free ones

  Pool& pool(bool small) { return small ? small_ : large_; }
  bool reserve(int64_t size, bool small);
  void give_back();
  Blocks::iterator join(Blocks::iterator block);

  Bytes capacity_, allocated_, reserved_, peak_allocated_, peak_reserved_;
  int64_t segments_ = 0;
  Blocks blocks_;
  Pool small_, large_;
  std::unordered_map<const void*, Blocks::iterator> used_;
};

// The most that is reserved over a record: on a device of this capacity or, if that is not enough, on one without end.
Bytes peak_reserved(std::span<const profile::Allocation> record, Bytes capacity);

}  // namespace shade::plan
