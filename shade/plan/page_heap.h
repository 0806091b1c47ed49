// A model of the heap that the program brings (jemalloc with one arena that gives nothing back by itself,
// docs/architecture.md): the pages that the tensors of a CPU touch, holes included.
//
//   classes   a request from 16 KiB on is rounded up to one of four sizes per doubling, with a page on top; smaller
//   ones
//             share pages and count as they are
//   fit       the lowest free extent that is large enough, and not more than 64 times as large; the rest stays free
//   freeing   an extent is joined with its free neighbours, and its pages stay
//   pages     of a new extent those below the requested size are touched; the rest when a later one is put there
#pragma once

#include <map>
#include <span>
#include <unordered_map>

#include "shade/profile/memory.h"

namespace shade::plan {

class PageHeap {
 public:
  void replay(std::span<const profile::Allocation> record);
  void allocate(const void* storage, Bytes size);
  void free(const void* storage);  // unknown ones are ignored
  void purge();                    // pages of free extents go back to the system

  Bytes resident() const { return {touched_bytes_ + small_bytes_}; }
  Bytes peak_resident() const { return peak_; }

 private:
  struct Used {
    int64_t begin, extent, size;
  };

  int64_t place(int64_t extent);  // its address
  void touch(int64_t begin, int64_t end);
  void note_peak();

  int64_t top_ = 0, small_bytes_ = 0, touched_bytes_ = 0;
  Bytes peak_;
  std::map<int64_t, int64_t> free_;     // begin to size
  std::map<int64_t, int64_t> touched_;  // begin to end, apart from each other
  std::unordered_map<const void*, Used> used_;
};

}  // namespace shade::plan
