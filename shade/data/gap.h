// How many records Poisson sampling passes over before the next one that joins.
//
// floor(ln U / ln(1 - rate)) for a U in (0, 1) of infinitely many random bits: each record joins on its own with
// probability `rate`, exactly. The first 64 bits suffice for all but about one draw in a million at rates from 1e-6 on
// (for all but 2^-40 / rate below). The fast path uses IEEE operations in a fixed order, no libm, and knows its error;
// where an integer is nearer than that, more bits and intervals (exact/enclosure.h) decide. Machines agree.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "shade/data/keyed_bits.h"
#include "shade/exact/enclosure.h"

namespace shade::data {

class Gap {
 public:
  explicit Gap(double rate);  // above 0 and below 1

  // At most `most`, which stands for that and everything above.
  int64_t draw(KeyedBits& bits, int64_t most) const;

  // The same by the 64 bits `n` that U begins with, or by the leading `count` of `words`; nothing if they don't tell.
  std::optional<int64_t> by_words(uint64_t n, int64_t most) const;
  std::optional<int64_t> by_intervals(std::span<const uint32_t> words, int count, int64_t most) const;

 private:
  double rate_, log_stay_;
};

}  // namespace shade::data
