// What shade plan --advise tried: memory against time per sample, the front joined by a line and listed below.
#include <algorithm>

#include "shade/base/error.h"
#include "shade/report/axes.h"
#include "shade/report/canvas.h"
#include "shade/report/pictures.h"

namespace shade::report {
namespace {

const std::string kOnFront = "#1f77c9", kSlower = "#9aa2ae", kTooLarge = "#d55e00";

// What lies far from the front would press it into a corner.
struct Window {
  double most_mb, most_time;
  bool holds(const AdvisedRow& row) const { return row.peak_mb <= most_mb && row.time <= most_time; }
};
Window window_of(const Advice& advice) {
  double slowest = 0, fastest = 0, largest = 0;
  for (const auto& row : advice.rows) {
    if (row.on_front()) slowest = std::max(slowest, row.time);
    if (fastest == 0 || row.time < fastest) fastest = row.time;
    largest = std::max(largest, row.peak_mb);
  }
  return {std::min(largest, 2 * advice.limit_mb), slowest > 0 ? 2 * slowest : 4 * fastest};
}

// Of the time that one sample takes; without a device profile of its work.
Unit work_unit(const Advice& advice, double largest) {
  return advice.timed ? time_unit(largest) : Unit{.factor = 1e-12, .name = "TFLOP"};
}

std::vector<const AdvisedRow*> front_of(const Advice& advice) {
  std::vector<const AdvisedRow*> out;
  for (const auto& row : advice.rows)
    if (row.on_front()) out.push_back(&row);
  std::sort(out.begin(), out.end(), [](const auto* a, const auto* b) { return a->peak_mb < b->peak_mb; });
  return out;
}

std::string points_script(const Advice& advice, const Window& window, const Unit& unit, const Unit& work,
                          double highest) {
  std::vector<std::vector<double>> slower, large, front, best;
  const auto point = [&](const AdvisedRow& row) {
    return std::vector<double>{unit.of(row.peak_mb), work.of(row.time)};
  };
  for (const auto& row : advice.rows) {
    if (!window.holds(row) || row.on_front()) continue;
    (row.peak_mb > advice.limit_mb ? large : slower).push_back(point(row));
  }
  for (const auto* row : front_of(advice)) {
    front.push_back(point(*row));
    if (row->name == advice.recommended) best.push_back(point(*row));
  }
  std::string blocks, parts;
  const auto add = [&](const char* name, const std::vector<std::vector<double>>& points, const std::string& how) {
    if (points.empty()) return;
    blocks += block(name, points);
    parts += text(parts.empty() ? "plot " : ", \\\n  ", "$", name, " using 1:2 with ", how);
  };
  const double limit = unit.of(advice.limit_mb);
  add("limit", {{limit, 0}, {limit, highest}}, "lines lw 1.5 dt 2 lc rgb '#606060'");
  add("slower", slower, text("points pt 7 ps 0.9 lc rgb '", kSlower, "'"));
  add("large", large, text("points pt 6 ps 0.9 lc rgb '", kTooLarge, "'"));
  add("front", front, text("linespoints lw 1.5 pt 7 ps 1.4 lc rgb '", kOnFront, "'"));
  add("best", best, "points pt 6 ps 2.6 lw 2 lc rgb '#202020'");
  return blocks + parts + "\n";
}

// Numbers of the list below, at the upper right of their points; one that would touch the one before is left out.
void add_front_numbers(Canvas& canvas, const Panel& panel, const std::vector<const AdvisedRow*>& front,
                       const Unit& unit, const Unit& work) {
  double last_x = -1e9, last_y = -1e9;
  for (size_t i = 0; i < front.size(); ++i) {
    const double x = panel.x(unit.of(front[i]->peak_mb)) + 13, y = panel.y(work.of(front[i]->time)) - 11;
    if (std::abs(x - last_x) < 20 && std::abs(y - last_y) < 15) continue;
    canvas.text(x, y, std::to_string(i + 1), Anchor::centre);
    last_x = x, last_y = y;
  }
}

Picture plan_front(const Results& results) {
  if (results.advice.empty() || results.advice.front().rows.empty()) return {};
  const auto& advice = results.advice.front();
  const auto window = window_of(advice);
  const auto unit = memory_unit(window.most_mb);
  double highest = 0;
  for (const auto& row : advice.rows)
    if (window.holds(row)) highest = std::max(highest, row.time);
  const auto work = work_unit(advice, highest);
  const auto shown = static_cast<size_t>(
      std::count_if(advice.rows.begin(), advice.rows.end(), [&](const auto& row) { return window.holds(row); }));
  const auto front = front_of(advice);
  Canvas canvas(
      "Memory against time of the settings that were tried: lower left is better",
      results.common.empty() || advice.recommended.empty() ? results.common : "recommended: " + results.common);
  canvas.legend({{"front: nothing faster needs less memory or costs less", kOnFront},
                 {"slower", kSlower},
                 {text("over the limit of ", unit.label(advice.limit_mb), " (dashed)"), kTooLarge},
                 {"circle: recommended", ""}});
  canvas.line(text(advice.timed ? "time per sample of all ranks together (" : "work per sample (", work.name, ")"),
              kTextPx, "#404040");
  Panel panel{.left = 80,
              .top = canvas.y() + 6,
              .right = 970,
              .bottom = canvas.y() + 436,
              .x1 = 1.06 * unit.of(std::max(window.most_mb, advice.limit_mb)),
              .y1 = std::max(1e-9, 1.1 * work.of(highest))};
  add_front_numbers(canvas, panel, front, unit, work);
  panel.script = text("set grid xtics ytics\nset border 3\n", tics('x', round_steps(0, panel.x1)),
                      tics('y', round_steps(0, panel.y1)), points_script(advice, window, unit, work, panel.y1));
  canvas.panel(panel);
  canvas.x_label(panel, text("peak memory per rank (", unit.name, ")"));
  for (size_t i = 0; i < front.size(); ++i)
    canvas.line(text(i + 1, ": ", front[i]->name, ": ", unit.label(front[i]->peak_mb), ", ", work.label(front[i]->time),
                     " per sample", front[i]->name == advice.recommended ? " (recommended)" : ""));
  if (shown < advice.rows.size())
    canvas.line(text(advice.rows.size() - shown, " of ", advice.rows.size(),
                     " settings are outside: over twice the limit, or more than twice as slow as the front"),
                kTextPx, "#606060");
  return canvas.picture();
}

constexpr PictureRow kFrontPictures[] = {{"plan_front", plan_front}};

}  // namespace

std::span<const PictureRow> front_pictures() { return kFrontPictures; }

}  // namespace shade::report
