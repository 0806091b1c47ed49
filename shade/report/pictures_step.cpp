// One step on an axis of time, measured or predicted: phases, units, waits, the collectives of each stream, and below
// them the memory.
#include <algorithm>
#include <set>

#include "shade/base/error.h"
#include "shade/report/canvas.h"
#include "shade/report/course_chart.h"
#include "shade/report/palette.h"
#include "shade/report/pictures.h"
#include "shade/report/series.h"

namespace shade::report {
namespace {

constexpr double kFirstPx = 110, kLastPx = 980, kLane = 18;

struct Bit {
  double from_ms, to_ms;
  std::string name, of;
  size_t lane = 0;
};
struct Track {
  std::string name;
  std::vector<Bit> bits;
};

bool says_unit(const std::string& name) { return name.starts_with("unit_"); }
bool says_wait(const std::string& name) { return name.ends_with("_wait"); }

std::string spaced(std::string words) {
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

std::string track_of(const std::string& stream) {
  if (stream == "network") return "network";
  if (stream == "node") return "in the node";
  return stream == "hosts" ? "between hosts" : "collectives";
}

// In the order in which they are drawn; those without anything are left out.
std::vector<Track> tracks_of(const Timeline& timeline) {
  std::vector<Track> out{{"phases", {}},  {"units", {}},       {"waits", {}},        {"collectives", {}},
                         {"network", {}}, {"in the node", {}}, {"between hosts", {}}};
  const auto add = [&](const std::string& track, const auto& stretch, const std::string& of) {
    const auto found = std::find_if(out.begin(), out.end(), [&](const auto& one) { return one.name == track; });
    found->bits.push_back({.from_ms = stretch.from_ms, .to_ms = stretch.to_ms, .name = stretch.name, .of = of});
  };
  for (const auto& span : timeline.spans) {
    if (span.name == "comm_wait") continue;  // counted by the waits inside of it
    add(says_unit(span.name) ? "units" : says_wait(span.name) ? "waits" : "phases", span, span.of);
  }
  for (const auto& one : timeline.collectives) add(track_of(one.stream), one, one.label);
  std::erase_if(out, [](const Track& track) { return track.bits.empty(); });
  return out;
}

// No two that overlap share a lane; what holds another lies above it. Returns the number of lanes.
size_t lay_out(std::vector<Bit>& bits) {
  std::sort(bits.begin(), bits.end(), [](const Bit& a, const Bit& b) {
    return a.from_ms < b.from_ms || (a.from_ms == b.from_ms && a.to_ms > b.to_ms);
  });
  std::vector<double> ends;
  for (auto& bit : bits) {
    while (bit.lane < ends.size() && ends[bit.lane] > bit.from_ms + 1e-6) ++bit.lane;
    if (bit.lane == ends.size()) ends.push_back(0);
    ends[bit.lane] = bit.to_ms;
  }
  return ends.size();
}

void add_track(Canvas& canvas, Track track, double step_ms) {
  const auto lanes = lay_out(track.bits);
  const double top = canvas.y();
  canvas.text(kFirstPx - 8, top + kLane / 2, track.name, Anchor::right, kTextPx, "#404040");
  const auto x = [&](double ms) { return kFirstPx + (kLastPx - kFirstPx) * std::clamp(ms / step_ms, 0.0, 1.0); };
  for (const auto& bit : track.bits) {
    const double y = top + static_cast<double>(bit.lane) * kLane, x0 = x(bit.from_ms);
    // A seam between neighbours, unless it were all there is.
    const double x1 = std::max(x0 + 0.8, x(bit.to_ms) - 0.6);
    canvas.box(x0, y + 1, x1, y + kLane - 1, colour_of_span(bit.name));
    const auto words = says_unit(bit.name) ? bit.of : spaced(bit.name);
    if (text_width(words, kTextPx) + 6 < x1 - x0) canvas.text(x0 + 3, y + kLane / 2, words);
  }
  canvas.skip(static_cast<double>(lanes) * kLane + 6);
}

// What the steps of a picture share: units, scale of memory, colours.
struct Shared {
  double largest_mb = 0;
  Unit time, memory;
  std::vector<std::string> kinds;
};

// What the boxes are too narrow to say, once for all steps.
void add_legend(Canvas& canvas, const std::vector<const ResultRow*>& rows, const std::vector<std::string>& kinds) {
  std::vector<std::pair<std::string, std::string>> entries;
  std::set<std::string> seen;
  for (const auto* row : rows) {
    for (const auto& track : tracks_of(*row->timeline)) {
      for (const auto& bit : track.bits) {
        const auto words = says_wait(bit.name) ? "waiting for a collective" : spaced(bit.name);
        if (seen.insert(words).second) entries.emplace_back(words, colour_of_span(bit.name));
      }
    }
  }
  canvas.legend(entries);
  if (kinds.empty()) return;
  entries = {{"memory:", ""}};
  for (const auto& kind : kinds) entries.emplace_back(spaced(kind), colour_of_memory(kind));
  canvas.legend(entries);
}

void add_memory(Canvas& canvas, const ResultRow& row, double step_ms, const Shared& shared) {
  const auto& [largest, time, unit, kinds] = shared;
  const auto& course = row.course();
  const bool known = course.ms.size() > 1 && !kinds.empty();
  Panel panel{.left = kFirstPx,
              .top = canvas.y() + 4,
              .right = kLastPx,
              .bottom = canvas.y() + (known ? 150 : 8),
              .x1 = time.of(step_ms),
              .y1 = known ? 1.05 * unit.of(largest) : 1};
  if (known) {
    canvas.text(16, panel.top + 8, "memory", Anchor::left, kTextPx, "#404040");
    canvas.text(16, panel.top + 24, text("(", unit.name, ")"), Anchor::left, kTextPx, "#404040");
  }
  panel.script = text("set border ", known ? 3 : 1, "\nset grid ytics\n", tics('x', round_steps(0, panel.x1, 10)),
                      known ? tics('y', round_steps(0, panel.y1, 3)) : "unset ytics\n",
                      known ? stacked_course(course, kinds, unit, time) : "plot NaN\n");
  canvas.panel(panel);
  canvas.x_label(panel, text("time since the start of the step (", time.name, ")"));
}

// A step per series, at the place of the slowest row; few, because each is as high as a hand.
std::vector<const ResultRow*> shown_rows(const Results& results, const AllSeries& series) {
  constexpr size_t kMost = 4;
  const ResultRow* slowest = nullptr;
  for (const auto& row : results.rows)
    if (row.timeline && (slowest == nullptr || row.time_ms > slowest->time_ms)) slowest = &row;
  std::vector<const ResultRow*> out;
  for (const auto& row : results.rows)
    if (row.timeline && place_of(row) == place_of(*slowest)) out.push_back(&row);
  std::stable_sort(out.begin(), out.end(),
                   [&](const auto* a, const auto* b) { return series.number(*a) < series.number(*b); });
  std::erase_if(out, [](const auto* row) { return row->timeline->step_ms <= 0; });
  if (out.size() > kMost) out.resize(kMost);
  return out;
}

Shared shared_by(const std::vector<const ResultRow*>& rows) {
  Shared out;
  double longest_ms = 0;
  std::vector<const Course*> courses;
  for (const auto* row : rows) {
    longest_ms = std::max(longest_ms, row->timeline->step_ms);
    const auto& course = row->course();
    if (course.ms.size() < 2) continue;
    out.largest_mb = std::max(out.largest_mb, highest_of(course).mb);
    courses.push_back(&course);
  }
  out.time = time_unit(longest_ms);
  out.memory = memory_unit(out.largest_mb);
  out.kinds = visible_kinds(courses, out.largest_mb);
  return out;
}

Picture step_timeline(const Results& results) {
  const AllSeries series(results);
  const auto rows = shown_rows(results, series);
  if (rows.empty()) return {};
  Canvas canvas(results.all_planned() ? "One step of rank 0, as predicted" : "One step of rank 0, as measured",
                results.common);
  const auto shared = shared_by(rows);
  add_legend(canvas, rows, shared.kinds);
  for (const auto* row : rows) {
    const double step_ms = row->timeline->step_ms;
    canvas.line(text(row->name, ": ", shared.time.label(step_ms),
                     row->moves_bytes() ? text(", of which it waits ", shared.time.label(row->waits_ms())) : ""),
                13);
    for (const auto& track : tracks_of(*row->timeline)) add_track(canvas, track, step_ms);
    add_memory(canvas, *row, step_ms, shared);
    canvas.skip(10);
  }
  return canvas.picture();
}

constexpr PictureRow kStepPictures[] = {{"step_timeline", step_timeline}};

}  // namespace

std::span<const PictureRow> step_pictures() { return kStepPictures; }

}  // namespace shade::report
