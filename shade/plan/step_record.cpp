#include "shade/plan/step_record.h"

#include <algorithm>

#include "shade/base/strings.h"
#include "shade/measure/mib.h"
#include "shade/measure/rank_memory.h"

namespace shade::plan {

void add_totals(StepRecord& record) {
  record.phases.clear();
  record.traffic.clear();
  record.sent = {};
  for (const auto& event : record.events) {
    if (event.kind == EventKind::wait) continue;
    if (event.kind != EventKind::collective) {
      auto& sum = record.phases[event.phase];
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

std::string owner_text(const PeakOwner& owner) {
  std::string words = text(to_string(owner.bytes), " of ", to_string(owner.kind));
  std::replace(words.begin(), words.end(), '_', ' ');
  if (!owner.phase.empty()) words += " in " + owner.phase;
  if (!owner.within.empty()) words += ", " + owner.within;
  if (!owner.of.empty()) words += " of " + owner.of;
  if (!owner.unit.empty()) words += ", unit " + owner.unit;
  return words;
}

Json to_json(const StepRecord& record) {
  double flops = 0;
  int64_t launches = 0;
  Json phases = Json::object();
  for (const auto& [name, sum] : record.phases) {
    phases[name.empty() ? "other" : name] = {{"launches", sum.launches}, {"flops", sum.flops}, {"bytes", sum.bytes}};
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
           {"peak_memory_mb", measure::mib(record.peak.total)},
           {"state_memory_mb", measure::mib(record.state.total)},
           {"breakdown", measure::by_kind(record.peak)},
           {"breakdown_max", measure::by_kind(record.most)},
           {"peak_owner",
            {{"words", owner_text(record.owner)},
             {"category", to_string(record.owner.kind)},
             {"mb", measure::mib(record.owner.bytes)},
             {"phase", record.owner.phase},
             {"within", record.owner.within},
             {"layer", record.owner.of},
             {"unit", record.owner.unit}}},
           {"communication", {{"bytes", record.sent.count}, {"collectives", collectives}}},
           {"flops", flops},
           {"model_flops", record.model_flops},
           {"launches", launches},
           {"checkpoint_bytes", record.checkpoint.count},
           {"phases", phases}};
  if (record.pages.count > 0) out["heap_memory_mb"] = measure::mib(record.pages);
  if (record.reserved.count > 0) out["reserved_memory_mb"] = measure::mib(record.reserved);
  return out;
}

}  // namespace shade::plan
