#include "shade/measure/rank_memory.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "shade/base/units.h"
#include "shade/measure/exchanged.h"
#include "shade/profile/device.h"
#include "shade/profile/host_memory.h"

namespace shade::measure {
namespace {

profile::MemoryBreakdown of_other(Bytes total) {
  profile::MemoryBreakdown out{.total = total};
  out.of(MemoryKind::other) = total;
  return out;
}

// Every amount of a rank, in one order: what is sent is what is read.
template <class Visit>
void each_amount(RankMemory& memory, const Visit& visit) {
  const auto breakdown = [&](profile::MemoryBreakdown& of) {
    visit(of.total);
    for (auto& kind : of.kinds) visit(kind);
  };
  breakdown(memory.at_peak);
  breakdown(memory.most);
  visit(memory.average);
  visit(memory.peak_resident);
  for (auto& line : memory.stages) {
    breakdown(line.tensors);
    for (auto* amount : {&line.peak, &line.reserved, &line.peak_reserved, &line.resident, &line.peak_resident})
      visit(*amount);
  }
}

double gib(Bytes bytes) { return std::round(mib(bytes) / 1024 * 1e5) / 1e5; }

}  // namespace

void add_stage(RankMemory& to, std::string stage, c10::Device device) {
  const auto process = profile::process_memory();
  MemoryLine line{.stage = std::move(stage),
                  .tensors = profile::TensorMemory::breakdown(),
                  .peak = profile::TensorMemory::peak(),
                  .reserved = profile::heap_reserved(),
                  .peak_reserved = to.stages.empty() ? Bytes{} : to.stages.back().peak_reserved,
                  .resident = process.resident,
                  .peak_resident = process.peak_resident};
  // Tensors may lie outside the heap (files of --offload), and their peak between two stages: what is reserved is at
  // least what is allocated, as on CUDA.
  line.reserved = std::max(line.reserved, line.tensors.total);
  line.peak_reserved = std::max({line.peak_reserved, line.reserved, line.peak});
  if (!device.is_cpu()) {
    const auto of_device = profile::device_memory(device);
    line.tensors = of_other(of_device.allocated);
    line.peak = of_device.peak;
    line.reserved = of_device.reserved;
    line.peak_reserved = of_device.peak_reserved;
  }
  to.stages.push_back(std::move(line));
}

void add_peak(RankMemory& to, c10::Device device) {
  to.at_peak =
      device.is_cpu() ? profile::TensorMemory::peak_breakdown() : of_other(profile::device_memory(device).peak);
  to.most = device.is_cpu() ? profile::TensorMemory::most() : to.at_peak;
  to.peak_resident = profile::process_memory().peak_resident;
}

std::vector<RankMemory> gathered(const comm::Group& group, const RankMemory& mine) {
  auto own = mine;
  std::vector<double> amounts;
  each_amount(own, [&](const Bytes& bytes) { amounts.push_back(static_cast<double>(bytes.count)); });
  std::vector<RankMemory> out;
  for (const auto& rank : exchanged(group, amounts)) {
    int64_t at = 0;
    each_amount(own, [&](Bytes& bytes) { bytes.count = std::llround(rank[at++].item<double>()); });
    out.push_back(own);
  }
  return out;
}

std::vector<MemoryLine> last_stage(const comm::Group& group, const RankMemory& mine) {
  RankMemory last;
  last.stages = {mine.stages.back()};
  std::vector<MemoryLine> out;
  for (auto& rank : gathered(group, last)) out.push_back(std::move(rank.stages.front()));
  return out;
}

catalog::Amounts by_kind(const profile::MemoryBreakdown& memory) {
  catalog::Amounts out;
  for (const auto& [name, kind] : names_of(MemoryKind{})) out.emplace_back(name, mib(memory.of(kind)));
  return out;
}

Json stage_record(const MemoryLine& line, int rank, bool on_gpu) {
  return {{"stage", line.stage},
          {"rank", rank},
          {"log_key", "memory"},
          {"device", on_gpu ? "cuda" : "cpu"},
          {"cuda_memory_allocated_GB", gib(line.tensors.total)},
          {"cuda_max_memory_allocated_GB", gib(line.peak)},
          {"cuda_memory_reserved_GB", gib(line.reserved)},
          {"cuda_max_memory_reserved_GB", gib(line.peak_reserved)},
          {"cpu_memory_rss_GB", gib(line.resident)}};
}

Json snapshot(const MemoryLine& line, int rank, bool on_gpu) {
  auto out = stage_record(line, rank, on_gpu);
  out.update({{"allocated_mb", mib(line.tensors.total)},
              {"max_allocated_mb", mib(line.peak)},
              {"reserved_mb", mib(line.reserved)},
              {"max_reserved_mb", mib(line.peak_reserved)},
              {"rss_mb", mib(line.resident)},
              {"max_rss_mb", mib(line.peak_resident)}});
  for (const auto& [kind, mb] : by_kind(line.tensors)) out[kind] = mb;
  return out;
}

Json rank_json(const RankMemory& memory, int rank) {
  Json out{{"rank", rank},
           {"peak_memory_mb", mib(memory.at_peak.total)},
           {"average_memory_mb", mib(memory.average)},
           {"peak_resident_mb", mib(memory.peak_resident)}};
  catalog::write_parts(out, {.breakdown_mb = by_kind(memory.at_peak), .highest_mb = by_kind(memory.most)});
  return out;
}

}  // namespace shade::measure
