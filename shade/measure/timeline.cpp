#include "shade/measure/timeline.h"

#include <algorithm>
#include <cmath>

#include "shade/base/error.h"
#include "shade/measure/mib.h"

namespace shade::measure {
namespace {

constexpr double kVisible = 1.0 / 2000;  // of a step; a pixel on a wide screen
constexpr size_t kMostPoints = 400;

double rounded(double value) { return std::round(value * 1e3) / 1e3; }

// Evenly thinned, but never without the highest.
std::vector<profile::MemoryPoint> thinned(std::span<const profile::MemoryPoint> course) {
  const size_t stride = (course.size() + kMostPoints - 1) / kMostPoints;
  if (stride <= 1) return {course.begin(), course.end()};
  std::vector<profile::MemoryPoint> out;
  for (size_t i = 0; i < course.size(); i += stride) {
    const auto part = course.subspan(i, std::min(stride, course.size() - i));
    out.push_back(*std::max_element(part.begin(), part.end(),
                                    [](const auto& a, const auto& b) { return a.memory.total < b.memory.total; }));
  }
  return out;
}

}  // namespace

Json timeline_of(StepTimes step, std::span<const SpanRecord> spans, std::span<const comm::TrafficRecord> traffic,
                 std::span<const profile::MemoryPoint> course, const NameOf& name_of) {
  const Millis whole = step.end - step.begin;
  const auto at = [&](Clock::time_point time) { return rounded(Millis(time - step.begin).count()); };
  const auto seen = [&](Clock::time_point begin, Clock::time_point end) {
    return begin >= step.begin && end <= step.end && Millis(end - begin) >= kVisible * whole;
  };
  Json out{{"step_ms", rounded(whole.count())}, {"spans", Json::array()}, {"collectives", Json::array()}};
  for (const auto& span : spans) {
    if (!seen(span.begin, span.end)) continue;
    Json one{{"name", span.name}, {"from_ms", at(span.begin)}, {"to_ms", at(span.end)}};
    if (auto of = name_of(span.name, span.index); !of.empty()) one["of"] = std::move(of);
    out["spans"].push_back(std::move(one));
  }
  for (const auto& record : traffic) {
    if (!record.finished() || record.started < step.begin || record.ended > step.end) continue;
    out["collectives"].push_back({{"name", to_string(record.kind)},
                                  {"label", record.label},
                                  {"from_ms", at(record.started)},
                                  {"to_ms", at(record.ended)},
                                  {"waited_ms", rounded(Millis(record.waited).count())},
                                  {"mb", rounded(mib(record.wire))}});
  }
  const auto points = thinned(course);
  Json memory{{"ms", Json::array()}};
  for (const auto& point : points) memory["ms"].push_back(std::max(0.0, at(point.at)));
  for (const auto& [name, kind] : names_of(MemoryKind{})) {
    Json values = Json::array();
    bool any = false;
    for (const auto& point : points) {
      any = any || point.memory.of(kind).count > 0;
      values.push_back(rounded(mib(point.memory.of(kind))));
    }
    if (any) memory[std::string(name)] = std::move(values);
  }
  out["memory"] = std::move(memory);
  return out;
}

Json json_of(const profile::PeakPlace& place, const NameOf& name_of) {
  Json out{{"category", to_string(place.kind)}, {"mb", rounded(mib(place.bytes))}};
  std::string words = text(to_string(place.bytes), " of ", to_string(place.kind));
  std::replace(words.begin(), words.end(), '_', ' ');
  if (place.phase != nullptr) {
    out["phase"] = place.phase;
    words += text(" in ", place.phase);
  }
  if (place.within != nullptr) {
    out["within"] = place.within;
    words += text(", ", place.within);
  }
  const auto* const inner = place.within != nullptr ? place.within : place.phase;
  if (const auto layer = inner == nullptr ? "" : name_of(inner, place.index); !layer.empty()) {
    out["layer"] = layer;
    words += text(" of ", layer);
  }
  if (const auto unit = name_of("unit", place.unit); !unit.empty()) {
    out["unit"] = unit;
    words += text(", unit ", unit);
  }
  out["words"] = words;
  return out;
}

}  // namespace shade::measure
