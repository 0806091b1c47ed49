#include "shade/profile/own_times.h"

#include <algorithm>
#include <vector>

namespace shade::profile {

OwnTimes own_times(std::span<const SpanRecord> records) {
  std::vector<SpanRecord> spans;
  for (auto record = records.rbegin(); record != records.rend(); ++record)
    if (!is_unit(record->name)) spans.push_back(*record);
  // The outer one first: of two with the same times the one that ended last. Spans of other threads that only overlap
  // are part of none.
  std::stable_sort(spans.begin(), spans.end(),
                   [](const auto& a, const auto& b) { return a.begin != b.begin ? a.begin < b.begin : a.end > b.end; });
  OwnTimes out;
  std::vector<SpanRecord> around;
  for (const auto& span : spans) {
    while (!around.empty() && around.back().end < span.end) around.pop_back();
    const bool part = !around.empty();
    if (part && is_wait(around.back().name) && is_wait(span.name)) continue;
    const Millis time = span.end - span.begin;
    out.phases[to_string(span.name)] += time;
    if (part) out.phases[to_string(around.back().name)] -= time;
    if (is_wait(span.name)) out.waits[to_string(part ? around.front().name : SpanName::other)] += time;
    around.push_back(span);
  }
  return out;
}

}  // namespace shade::profile
