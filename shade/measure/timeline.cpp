#include "shade/measure/timeline.h"

#include <algorithm>
#include <cmath>

#include "shade/base/units.h"

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

catalog::Timeline timeline_of(StepTimes step, std::span<const SpanRecord> spans,
                              std::span<const comm::TrafficRecord> traffic,
                              std::span<const profile::MemoryPoint> course, const NameOf& name_of) {
  const Millis whole = step.end - step.begin;
  const auto at = [&](Clock::time_point time) { return rounded(Millis(time - step.begin).count()); };
  const auto seen = [&](Clock::time_point begin, Clock::time_point end) {
    return begin >= step.begin && end <= step.end && Millis(end - begin) >= kVisible * whole;
  };
  catalog::Timeline out{.step_ms = rounded(whole.count())};
  for (const auto& span : spans)
    if (seen(span.begin, span.end))
      out.spans.push_back({.name = to_string(span.name),
                           .of = name_of(span.name, span.index),
                           .from_ms = at(span.begin),
                           .to_ms = at(span.end)});
  for (const auto& record : traffic) {
    if (!record.finished() || record.started < step.begin || record.ended > step.end) continue;
    out.collectives.push_back({.name = to_string(record.kind),
                               .label = record.label,
                               .from_ms = at(record.started),
                               .to_ms = at(record.ended),
                               .waited_ms = rounded(Millis(record.waited).count()),
                               .mb = rounded(mib(record.wire))});
  }
  const auto points = thinned(course);
  for (const auto& point : points) out.memory.ms.push_back(std::max(0.0, at(point.at)));
  for (const auto& [name, kind] : names_of(MemoryKind{})) {
    std::vector<double> values;
    for (const auto& point : points) values.push_back(rounded(mib(point.memory.of(kind))));
    if (std::any_of(points.begin(), points.end(), [&](const auto& point) { return point.memory.of(kind).count > 0; }))
      out.memory.kinds_mb.emplace_back(name, std::move(values));
  }
  return out;
}

}  // namespace shade::measure
