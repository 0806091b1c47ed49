// Memory by stage, and through one step in a panel for each mode, at the shape with the largest peak.
#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/report/axes.h"
#include "shade/report/bars.h"
#include "shade/report/canvas.h"
#include "shade/report/course_chart.h"
#include "shade/report/findings.h"
#include "shade/report/palette.h"
#include "shade/report/pictures.h"

namespace shade::report {
namespace {

using Rows = std::vector<const ResultRow*>;

// Other shapes have the same course, lower.
Rows of_largest_shape(const Results& results, const AllSeries& series) {
  Rows out;
  const ResultRow* largest = nullptr;
  const auto known = [](const ResultRow& row) { return !row.snapshots.empty() || row.course().ms.size() > 1; };
  for (const auto& row : results.rows)
    if (known(row) && (largest == nullptr || row.peak_mb > largest->peak_mb)) largest = &row;
  for (const auto& row : results.rows)
    if (known(row) && place_of(row) == place_of(*largest)) out.push_back(&row);
  std::stable_sort(out.begin(), out.end(),
                   [&](const auto* a, const auto* b) { return series.number(*a) < series.number(*b); });
  return out;
}

// Full: what is allocated at that moment. Pale: the highest so far.
void add_stages(Canvas& canvas, const Rows& rows, const AllSeries& series) {
  std::vector<std::string> stages;
  double largest = 0;
  for (const auto* row : rows) {
    for (const auto& snapshot : row->snapshots) {
      largest = std::max(largest, snapshot.highest_mb);
      if (std::find(stages.begin(), stages.end(), snapshot.stage) == stages.end()) stages.push_back(snapshot.stage);
    }
  }
  if (stages.empty()) return;
  const auto unit = memory_unit(largest);
  std::vector<Bar> bars;
  for (const auto& stage : stages) {
    bool first = true;
    for (const auto* row : rows) {
      const auto found = std::find_if(row->snapshots.begin(), row->snapshots.end(),
                                      [&](const auto& snapshot) { return snapshot.stage == stage; });
      if (found == row->snapshots.end()) continue;
      const auto &word = series.of(*row).word, colour = series.of(*row).colour();
      const double more = std::max(0.0, found->highest_mb - found->allocated_mb);
      bars.push_back({.heading = std::exchange(first, false) && rows.size() > 1 ? stage : "",
                      .label = rows.size() > 1 ? word : stage,
                      .parts = {{unit.of(found->allocated_mb), colour}, {unit.of(more), paler(colour)}},
                      .whisker = {},
                      .words = text(unit.label(found->allocated_mb), ", highest ", unit.label(found->highest_mb))});
    }
  }
  add_bars(canvas, "By stage: allocated, and paler the highest so far", text("memory of rank 0 (", unit.name, ")"),
           bars);
}

// Two panels in a line, all with one scale for memory; one alone is as wide as the picture.
void add_courses(Canvas& canvas, const Rows& all, const AllSeries& series) {
  Rows rows;
  std::vector<const Course*> courses;
  double largest = 0, longest_ms = 0;
  for (const auto* row : all) {
    if (row->course().ms.size() < 2 || row->course().kinds_mb.empty()) continue;
    rows.push_back(row);
    courses.push_back(&row->course());
    largest = std::max(largest, highest_of(row->course()).mb);
    longest_ms = std::max(longest_ms, row->course().ms.back());
  }
  const auto kinds = visible_kinds(courses, largest);
  if (kinds.empty()) return;
  const auto unit = memory_unit(largest);
  const auto time = time_unit(longest_ms);
  canvas.line(text("Through one step of rank 0 (", unit.name, " over ", time.name,
                   "), by what it is for; triangle: the highest moment"),
              13);
  std::vector<std::pair<std::string, std::string>> legend;
  for (const auto& kind : kinds) legend.emplace_back(kind, colour_of_memory(kind));
  canvas.legend(legend);
  const bool alone = rows.size() == 1;
  const double high = alone ? 280 : 190, wide = alone ? 910 : 420;
  constexpr double kLeft = 60, kApart = 490;
  for (size_t i = 0; i < rows.size(); ++i) {
    const double top = canvas.y() + 24, left = kLeft + static_cast<double>(i % 2) * kApart;
    const auto& course = rows[i]->course();
    Panel panel{.left = left,
                .top = top,
                .right = left + wide,
                .bottom = top + high,
                .x1 = std::max(1e-9, time.of(course.ms.back())),
                .y1 = std::max(1e-9, 1.05 * unit.of(largest))};
    canvas.text(left, top - 11,
                fitted(text(series.of(*rows[i]).word, ", highest ", unit.label(highest_of(course).mb)), kTextPx, wide));
    panel.script = text("set border 3\nset grid ytics\n", tics('x', round_steps(0, panel.x1, alone ? 10 : 5)),
                        tics('y', round_steps(0, panel.y1, 4)), stacked_course(course, kinds, unit, time));
    const bool last_of_line = i % 2 == 1 || i + 1 == rows.size();
    const double y = canvas.y();
    canvas.panel(panel);
    canvas.skip(last_of_line ? 32 : y - canvas.y());
  }
  for (const auto* row : rows)
    if (!row->peak_owner.empty())
      canvas.line(text("peak of ", alone ? "" : text(series.of(*row).word, ": "), unit.label(row->peak_mb),
                       ", reached by ", row->peak_owner),
                  kTextPx, "#404040");
}

Picture memory_timeline(const Results& results) {
  const AllSeries series(results);
  const auto rows = of_largest_shape(results, series);
  if (rows.empty()) return {};
  const auto place = place_of(*rows.front());
  Canvas canvas("Tensor memory over time",
                text(results.common, place.empty() ? "" : text("; ", place, " (the shape with the largest peak)")));
  add_stages(canvas, rows, series);
  add_courses(canvas, rows, series);
  return canvas.picture();
}

constexpr PictureRow kTimelinePictures[] = {{"memory_timeline", memory_timeline}};

}  // namespace

std::span<const PictureRow> timeline_pictures() { return kTimelinePictures; }

}  // namespace shade::report
