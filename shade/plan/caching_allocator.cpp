#include "shade/plan/caching_allocator.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>

#include "shade/base/error.h"

namespace shade::plan {
namespace {

constexpr int64_t kSmallest = 512;
constexpr int64_t kSmall = MiB(1).count, kSmallSegment = MiB(2).count;
constexpr int64_t kOwnSegment = MiB(10).count, kLargeSegment = MiB(20).count, kRound = MiB(2).count;

int64_t aligned(int64_t size, int64_t unit) { return (size + unit - 1) / unit * unit; }

int64_t segment_for(int64_t size) {
  if (size <= kSmall) return kSmallSegment;
  return size < kOwnSegment ? kLargeSegment : aligned(size, kRound);
}

bool worth_splitting(int64_t rest, bool small) { return small ? rest >= kSmallest : rest > kSmall; }

// Empty: out of memory.
std::optional<Bytes> replayed(std::span<const profile::Allocation> record, Bytes capacity) {
  CachingAllocator allocator(capacity);
  for (const auto& [storage, size] : record) {
    if (size.count == 0)
      allocator.free(storage);
    else if (!allocator.allocate(storage, size))
      return std::nullopt;
  }
  return allocator.peak_reserved();
}

}  // namespace

bool CachingAllocator::Smaller::operator()(const Blocks::iterator& a, const Blocks::iterator& b) const {
  return std::tie(a->size, a->segment, a->begin) < std::tie(b->size, b->segment, b->begin);
}

bool CachingAllocator::allocate(const void* storage, Bytes wanted) {
  SHADE_CHECK(!used_.contains(storage), "a storage was allocated twice");
  const auto size = std::max(kSmallest, aligned(wanted.count, kSmallest));
  const bool small = size <= kSmall;
  auto& free = pool(small);
  const auto find = [&] {
    Blocks probe{{.segment = -1, .begin = 0, .size = size, .small = small, .used = false}};
    return free.lower_bound(probe.begin());
  };
  auto found = find();
  if (found == free.end()) {
    if (!reserve(segment_for(size), small)) {
      give_back();
      if (!reserve(segment_for(size), small)) return false;
    }
    found = find();
  }
  const auto block = *found;
  free.erase(found);
  if (const auto rest = block->size - size; worth_splitting(rest, small)) {
    free.insert(blocks_.insert(
        std::next(block),
        {.segment = block->segment, .begin = block->begin + size, .size = rest, .small = small, .used = false}));
    block->size = size;
  }
  block->used = true;
  used_.emplace(storage, block);
  allocated_.count += block->size;
  peak_allocated_ = std::max(peak_allocated_, allocated_);
  return true;
}

void CachingAllocator::free(const void* storage) {
  const auto known = used_.find(storage);
  if (known == used_.end()) return;
  const auto block = known->second;
  used_.erase(known);
  allocated_.count -= block->size;
  block->used = false;
  pool(block->small).insert(join(block));
}

bool CachingAllocator::reserve(int64_t size, bool small) {
  if (reserved_.count > capacity_.count - size) return false;
  reserved_.count += size;
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  pool(small).insert(
      blocks_.insert(blocks_.end(), {.segment = segments_++, .begin = 0, .size = size, .small = small, .used = false}));
  return true;
}

// Segments that are free as a whole.
void CachingAllocator::give_back() {
  for (auto* free : {&small_, &large_})
    for (auto it = free->begin(); it != free->end();) {
      const auto block = *it;
      const auto after = std::next(block);
      const bool whole = block->begin == 0 && (after == blocks_.end() || after->segment != block->segment);
      if (!whole) {
        ++it;
        continue;
      }
      reserved_.count -= block->size;
      it = free->erase(it);
      blocks_.erase(block);
    }
}

CachingAllocator::Blocks::iterator CachingAllocator::join(Blocks::iterator block) {
  auto& free = pool(block->small);
  const auto absorb = [&](Blocks::iterator first, Blocks::iterator second) {
    first->size += second->size;
    blocks_.erase(second);
    return first;
  };
  const auto next = std::next(block);
  if (next != blocks_.end() && next->segment == block->segment && !next->used) {
    free.erase(next);
    block = absorb(block, next);
  }
  if (block == blocks_.begin()) return block;
  const auto before = std::prev(block);
  if (before->segment != block->segment || before->used) return block;
  free.erase(before);
  return absorb(before, block);
}

Bytes peak_reserved(std::span<const profile::Allocation> record, Bytes capacity) {
  if (const auto within = replayed(record, capacity)) return *within;
  return replayed(record, Bytes{std::numeric_limits<int64_t>::max()}).value();
}

}  // namespace shade::plan
