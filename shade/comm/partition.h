// How N elements are dealt to W ranks: equal slices of ceil(N / W), the last ones short or empty. Every collective,
// shard and checkpoint uses this one rule, so that sizes not divisible by W need no special case anywhere else.
#pragma once

#include <algorithm>
#include <cstdint>

namespace shade::comm {

struct Slice {
  int64_t begin = 0;
  int64_t size = 0;
  int64_t end() const { return begin + size; }
  bool operator==(const Slice&) const = default;
};

constexpr int64_t slice_length(int64_t total, int ranks) { return (total + ranks - 1) / ranks; }

constexpr Slice slice_of(int64_t total, int ranks, int rank) {
  const int64_t length = slice_length(total, ranks);
  const int64_t begin = std::min(total, length * rank);
  return {begin, std::min(total, begin + length) - begin};
}

}  // namespace shade::comm
