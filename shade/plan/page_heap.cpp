#include "shade/plan/page_heap.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "shade/base/error.h"

namespace shade::plan {
namespace {

constexpr int64_t kPage = KiB(4).count, kLeastExtent = KiB(16).count;
constexpr int64_t kMostTimesLarger = 64;

int64_t pages_of(int64_t size) { return (size + kPage - 1) / kPage * kPage; }

int64_t extent_for(int64_t size) {
  const auto spacing = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(size - 1)) / 4);
  return (size + spacing - 1) / spacing * spacing + kPage;
}

}  // namespace

void PageHeap::replay(std::span<const profile::Allocation> record) {
  for (const auto& [storage, size] : record)
    if (size.count == 0)
      free(storage);
    else
      allocate(storage, size);
}

void PageHeap::allocate(const void* storage, Bytes size) {
  SHADE_CHECK(!used_.contains(storage), "a storage was allocated twice");
  if (size.count < kLeastExtent) {
    used_.emplace(storage, Used{.begin = -1, .extent = 0, .size = size.count});
    small_bytes_ += size.count;
    return note_peak();
  }
  const auto extent = extent_for(size.count);
  const auto begin = place(extent);
  used_.emplace(storage, Used{.begin = begin, .extent = extent, .size = pages_of(size.count)});
  touch(begin, begin + pages_of(size.count));
  note_peak();
}

int64_t PageHeap::place(int64_t extent) {
  const auto found = std::find_if(free_.begin(), free_.end(), [&](const auto& hole) {
    return hole.second >= extent && hole.second / kMostTimesLarger <= extent;
  });
  if (found == free_.end()) {
    top_ += extent;
    return top_ - extent;
  }
  const auto [begin, size] = *found;
  free_.erase(found);
  if (size > extent) free_.emplace(begin + extent, size - extent);
  return begin;
}

void PageHeap::free(const void* storage) {
  const auto known = used_.find(storage);
  if (known == used_.end()) return;
  auto [begin, extent, size] = known->second;
  used_.erase(known);
  if (begin < 0) {
    small_bytes_ -= size;
    return;
  }
  auto next = free_.lower_bound(begin);
  if (next != free_.end() && next->first == begin + extent) {
    extent += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin())
    if (const auto before = std::prev(next); before->first + before->second == begin) {
      before->second += extent;
      return;
    }
  free_.emplace(begin, extent);
}

void PageHeap::touch(int64_t begin, int64_t end) {
  auto at = touched_.upper_bound(begin);
  if (at != touched_.begin() && std::prev(at)->second >= begin) --at;
  while (at != touched_.end() && at->first <= end) {
    begin = std::min(begin, at->first);
    end = std::max(end, at->second);
    touched_bytes_ -= at->second - at->first;
    at = touched_.erase(at);
  }
  touched_.emplace(begin, end);
  touched_bytes_ += end - begin;
}

void PageHeap::purge() {
  touched_.clear();
  touched_bytes_ = 0;
  for (const auto& [storage, used] : used_)
    if (used.begin >= 0) touch(used.begin, used.begin + used.size);
}

void PageHeap::note_peak() { peak_ = std::max(peak_, resident()); }

}  // namespace shade::plan
