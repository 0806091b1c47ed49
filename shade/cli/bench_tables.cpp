#include "shade/cli/bench_tables.h"

#include <algorithm>
#include <cstdio>

#include "shade/base/strings.h"
#include "shade/base/visible_text.h"
#include "shade/measure/mib.h"

namespace shade::cli {
namespace {

std::vector<std::pair<std::string, double>> largest_first(const std::map<std::string, double>& times) {
  std::vector<std::pair<std::string, double>> out(times.begin(), times.end());
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

}  // namespace

void add_memory(Table& table, const measure::BenchResult& result) {
  const auto &at_peak = result.largest().at_peak, most = result.most();
  table.add({"peak tensor memory", text(to_string(at_peak.total), " per rank (process ",
                                        to_string(measure::from_mib(*result.resident_mb)), ")")});
  for (const auto& [name, kind] : names_of(MemoryKind{})) {
    if (most.of(kind).count == 0) continue;
    const auto now = to_string(at_peak.of(kind)), highest = to_string(most.of(kind));
    table.add({text("  ", name), highest == now ? now : text(now, ", at most ", highest)});
  }
  if (!result.peak_owner.is_null()) table.add({"  reached by", result.peak_owner["words"].get<std::string>()});
  if (result.ranks == 1) return;
  std::vector<std::string> ranks;
  for (const auto& rank : result.memory) ranks.push_back(to_string(rank.at_peak.total));
  table.add({"  by rank", join(ranks, ", ")});
}

void print_phases(const measure::BenchResult& result, size_t layers) {
  if (result.phases_ms.empty()) return;
  Table table({"phase", "per step", "share"});
  const auto add = [&](const std::string& name, double ms) {
    table.add({visible(name), to_string(Seconds(ms / 1e3)), text(significant(100 * ms / result.time_ms, 2), " %")});
  };
  for (const auto& [name, ms] : largest_first(result.phases_ms)) {
    add(name, ms);
    if (name != "norm") continue;
    const auto norms = largest_first(result.norms_ms);
    for (size_t i = 0; i < std::min(layers, norms.size()); ++i) add("  of " + norms[i].first, norms[i].second);
  }
  std::printf("\nphases of rank 0; they nest: a norm is part of its backward\n%s", table.str().c_str());
}

void print_stage(const std::vector<measure::MemoryLine>& by_rank, bool on_gpu, bool first) {
  if (is_terminal(stderr)) std::fprintf(stderr, "\r\033[K");  // a line of progress
  if (first)
    std::printf("memory by stage and rank%s\n",
                on_gpu ? "" : "; on a CPU the keys cuda_* hold the tensor memory of the CPU");
  for (int rank = 0; rank < std::ssize(by_rank); ++rank)
    std::printf("%s\n", measure::stage_record(by_rank[static_cast<size_t>(rank)], rank, on_gpu).dump().c_str());
  std::fflush(stdout);
}

}  // namespace shade::cli
