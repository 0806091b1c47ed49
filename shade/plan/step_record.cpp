#include "shade/plan/step_record.h"

#include <algorithm>
#include <cmath>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/units.h"
#include "shade/catalog/remedies.h"
#include "shade/measure/rank_memory.h"

namespace shade::plan {

void add_totals(StepRecord& record) {
  record.phases.clear();
  record.traffic.clear();
  record.sent = {};
  for (const auto& event : record.events) {
    if (event.kind == EventKind::wait) continue;
    if (event.kind != EventKind::collective) {
      auto& sum = record.phases[to_string(event.phase)];
      ++sum.launches;
      sum.flops += event.flops;
      sum.bytes += event.bytes();
      continue;
    }
    const auto& of = event.collective;
    if (of.kind == comm::Collective::barrier) continue;
    auto found = std::find_if(record.traffic.begin(), record.traffic.end(), [&](const TrafficTotal& total) {
      return total.kind == of.kind && total.axis == of.axis;
    });
    if (found == record.traffic.end())
      found = record.traffic.insert(record.traffic.end(), {.kind = of.kind, .axis = of.axis});
    ++found->count;
    found->wire.count += of.wire.count;
    record.sent.count += of.wire.count;
  }
}

namespace {

std::vector<std::pair<Bytes, MemoryKind>> by_size(const profile::MemoryBreakdown& memory) {
  std::vector<std::pair<Bytes, MemoryKind>> out;
  for (const auto& [name, kind] : names_of(MemoryKind{})) out.emplace_back(memory.of(kind), kind);
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  return out;
}

}  // namespace

std::string largest_part(const StepRecord& record) {
  const auto [bytes, kind] = by_size(record.peak).front();
  auto words = to_string(kind);
  std::replace(words.begin(), words.end(), '_', ' ');
  const double share =
      static_cast<double>(bytes.count) / static_cast<double>(std::max<int64_t>(1, record.peak.total.count));
  return text(to_string(bytes), " of ", words, " (", std::lround(100 * share), " %)");
}

std::string peak_remedy(const StepRecord& record, const Json& options) {
  auto run = catalog::settings_of(options);
  run["ranks"] = text(record.ranks);
  for (const auto& [bytes, kind] : by_size(record.peak))
    if (bytes.count > 0)
      if (const auto known = catalog::less_memory(kind, run); !known.empty()) return known.front();
  return {};
}

Json to_json(const StepRecord& record) {
  double flops = 0;
  int64_t launches = 0;
  Json phases = Json::object();
  for (const auto& [name, sum] : record.phases) {
    phases[name] = {{"launches", sum.launches}, {"flops", sum.flops}, {"bytes", sum.bytes}};
    flops += sum.flops;
    launches += sum.launches;
  }
  Json collectives = Json::array();
  for (const auto& total : record.traffic)
    collectives.push_back({{"collective", to_string(total.kind)},
                           {"axis", total.axis},
                           {"count", total.count},
                           {"bytes", total.wire.count}});
  Json out{{"num_ranks", record.ranks},
           {"rank", record.rank},
           {"parameters", record.parameters},
           {"samples", record.samples},
           {"tokens", record.tokens},
           {"peak_memory_mb", mib(record.peak.total)},
           {"state_memory_mb", mib(record.state.total)},
           {"peak_owner", record.owner.json()},
           {"communication", {{"bytes", record.sent.count}, {"collectives", collectives}}},
           {"flops", flops},
           {"model_flops", record.model_flops},
           {"launches", launches},
           {"checkpoint_bytes", record.checkpoint.count},
           {"phases", phases}};
  catalog::write_parts(out,
                       {.breakdown_mb = measure::by_kind(record.peak), .highest_mb = measure::by_kind(record.most)});
  if (record.pages.count > 0) out["heap_memory_mb"] = mib(record.pages);
  if (record.reserved.count > 0) out["reserved_memory_mb"] = mib(record.reserved);
  return out;
}

}  // namespace shade::plan
