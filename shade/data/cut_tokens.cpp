#include "shade/data/cut_tokens.h"

#include <algorithm>

namespace shade::data {

double share_cut(const TokenStore& store, int64_t seq_length, int64_t frame) {
  constexpr int64_t kStep = 1024, kSteps = 64;
  const int64_t stride = std::max(kStep, store.records() / kSteps);
  double all = 0, cut = 0;
  for (int64_t first = 0; first < store.records(); first += stride) {
    for (const auto& entry : store.entries(first, std::min(kStep, store.records() - first))) {
      const auto length = static_cast<int64_t>(entry.end - entry.begin) + frame;
      all += static_cast<double>(length);
      cut += static_cast<double>(std::max<int64_t>(0, length - seq_length));
    }
  }
  return all > 0 ? cut / all : 0;
}

}  // namespace shade::data
