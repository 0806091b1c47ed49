// The collectives of this machine, measured: ours beside the stock ones of the same backend, interleaved.
#pragma once

#include <string>
#include <vector>

#include "shade/base/config.h"
#include "shade/base/json.h"
#include "shade/comm/world.h"

namespace shade::measure {

enum class Element { fp32, bf16 };

inline std::span<const Name<Element>> names_of(Element) {
  static constexpr Name<Element> kNames[] = {{"fp32", Element::fp32}, {"bf16", Element::bf16}};
  return kNames;
}

struct CollectivesConfig {
  std::vector<Bytes> sizes{MiB(1), MiB(4), MiB(16), MiB(64)};
  std::vector<std::string> collectives{"all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast"};
  Element dtype = Element::fp32;
  int64_t iterations = 9;
  int64_t warmup = 2;

  void declare(Fields& fields);
};

struct CollectiveRow {
  comm::Collective collective = comm::Collective::barrier;
  Bytes bytes;  // of the full buffer
  int ranks = 1;
  Element dtype = Element::fp32;
  Seconds ours{0}, stock{0};  // best of the iterations, each the slowest rank's
  Seconds ours_median{0}, stock_median{0};

  double ratio() const { return ours / stock; }
  Json json() const;
};

// Collective: every rank calls it and gets the same rows. Rank 0 shows progress.
std::vector<CollectiveRow> measure_collectives(comm::World& world, const CollectivesConfig& config);

}  // namespace shade::measure
