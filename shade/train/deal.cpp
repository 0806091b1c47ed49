#include "shade/train/deal.h"

#include "shade/base/error.h"
#include "shade/comm/partition.h"

namespace shade::train {

std::vector<std::span<const int64_t>> deal(std::span<const int64_t> records, int ranks, int rank, int64_t micro_batch) {
  SHADE_REQUIRE(micro_batch > 0, "a micro-batch of ", micro_batch, " samples; expected at least 1");
  const auto total = static_cast<int64_t>(records.size());
  const auto part = comm::slice_of(total, ranks, rank);
  const auto most = comm::slice_length(total, ranks);
  const int64_t micro_steps = std::max<int64_t>(1, (most + micro_batch - 1) / micro_batch);
  std::vector<std::span<const int64_t>> out;
  for (int64_t i = 0; i < micro_steps; ++i) {
    const auto begin = std::min(part.size, i * micro_batch), size = std::min(micro_batch, part.size - begin);
    out.push_back(records.subspan(static_cast<size_t>(part.begin + begin), static_cast<size_t>(size)));
  }
  return out;
}

}  // namespace shade::train
