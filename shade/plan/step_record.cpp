#include "shade/plan/step_record.h"

#include <algorithm>

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

}  // namespace shade::plan
