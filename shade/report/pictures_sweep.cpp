// Strategies against batch sizes: throughput, memory, utilisation.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/units.h"
#include "shade/report/axes.h"
#include "shade/report/canvas.h"
#include "shade/report/palette.h"
#include "shade/report/pictures.h"
#include "shade/report/series.h"

namespace shade::report {
namespace {

const std::string kBatches = "batch size per rank (samples)";

std::vector<int64_t> batches_of(const Results& results) {
  std::set<int64_t> out;
  for (const auto& row : results.rows) out.insert(row.batch_size);
  return {out.begin(), out.end()};
}

template <class Wanted>
bool all_rows(const Results& results, Wanted wanted) {
  return std::all_of(results.rows.begin(), results.rows.end(), wanted);
}

struct Value {
  double y, low, high;
};

// How far apart points of one batch size are drawn, so that none hides another and no whisker covers another: within a
// third of the way to the next batch size. In units of the axis.
double dodge_of(const Panel& panel, const std::vector<int64_t>& batches, size_t lines) {
  constexpr double kMostPx = 12;
  double nearest = panel.x1 - panel.x0;
  for (size_t b = 1; b < batches.size(); ++b)
    nearest = std::min(nearest, std::log2(static_cast<double>(batches[b]) / static_cast<double>(batches[b - 1])));
  return std::min(kMostPx / panel.x_px(), nearest / 3 / static_cast<double>(std::max<size_t>(1, lines - 1)));
}

Picture over_batch(const Results& results, const std::string& title, const std::string& y_label,
                   const std::function<Value(const ResultRow&)>& value) {
  const auto lines = batch_lines(results);
  const auto batches = batches_of(results);
  Canvas canvas(title, results.common);
  std::vector<std::pair<std::string, std::string>> legend;
  for (const auto& line : lines) legend.emplace_back(line.name, line.colour);
  canvas.legend(legend);
  canvas.line(y_label, kTextPx, "#404040");
  Panel panel{.left = 80, .top = canvas.y() + 6, .right = 970, .bottom = canvas.y() + 426, .y1 = 1e-9};
  for (const auto& row : results.rows) panel.y1 = std::max(panel.y1, 1.08 * value(row).high);
  const double first = std::log2(static_cast<double>(batches.front()));
  const double last = std::log2(static_cast<double>(batches.back()));
  panel.x0 = first - 0.05 * (last - first);
  panel.x1 = last + 0.05 * (last - first);
  const double dodge = dodge_of(panel, batches, lines.size());
  std::string blocks;
  std::vector<std::string> parts;
  for (size_t l = 0; l < lines.size(); ++l) {
    std::vector<std::vector<double>> points;
    const double aside = dodge * (static_cast<double>(l) - (static_cast<double>(lines.size()) - 1) / 2);
    for (const auto* row : lines[l].rows) {
      const auto [y, low, high] = value(*row);
      points.push_back({std::log2(static_cast<double>(row->batch_size)) + aside, y, low, high - low});
    }
    std::sort(points.begin(), points.end());
    blocks += block(text("s", l), points);
    const auto look = text(" lw 2 lc rgb '", lines[l].colour, "'");
    parts.push_back(text("$s", l, " using 1:2 with linespoints pt 7 ps 1.3", look));
    parts.push_back(text("$s", l, " using 1:3:(0):4 with vectors heads size screen 0.004,90", look));
  }
  panel.script = text("set grid ytics\nset border 3\n", log2_tics(panel, batches), tics('y', round_steps(0, panel.y1)),
                      blocks, "plot ", join(parts, ", \\\n  "), "\n");
  canvas.panel(panel);
  canvas.x_label(panel, kBatches + (lines.size() > 1 ? "; points of one size are drawn next to each other" : ""));
  return canvas.picture();
}

bool has_batches(const Results& results) {  // one is no line
  const auto batches = batches_of(results);
  return batches.size() > 1 && batches.front() > 0;
}

Picture tokens_per_second(const Results& results) {
  if (!has_batches(results) ||
      !all_rows(results, [](const auto& row) { return row.tokens_per_second > 0 && row.fastest_ms > 0; }))
    return {};
  return over_batch(results, text("Throughput of all ranks (line: ", results.range_text(), ")"),
                    results.throughput_unit(), [&](const ResultRow& row) -> Value {
                      const double in_all = row.tokens_per_second * row.time_ms;
                      const auto [low, high] = results.range_ms(row);
                      return {row.tokens_per_second, in_all / high, in_all / low};
                    });
}

Picture memory_vs_batch(const Results& results) {
  if (!has_batches(results)) return {};
  const auto unit = memory_unit(results.largest_peak_mb());
  return over_batch(results, "Peak tensor memory per rank", text("peak memory (", unit.name, ")"),
                    [&](const ResultRow& row) -> Value {
                      const double peak = unit.of(row.peak_mb);
                      return {peak, peak, peak};
                    });
}

double share_of(const ResultRow& row, bool measured) {
  if (measured) return 100 * *row.utilisation;
  return 100 * (1 - row.waits_ms() / row.time_ms);
}

constexpr const char* kShareColours =
    "set palette defined (0 '#f4a582', 0.5 '#f7f0d8', 1 '#66c2a5')\nset cbrange [0:100]\nunset colorbox\n";

// The colours of shares from 0 to 100 %, as an axis.
void add_colour_scale(Canvas& canvas, double left) {
  const double top = canvas.y() + 4;
  Panel panel{.left = left, .top = top, .right = left + 300, .bottom = top + 14, .x1 = 100};
  std::vector<std::vector<double>> steps;
  for (int share = 0; share < 100; share += 2) steps.push_back({share + 1.0, 0.5, share + 1.0});
  panel.script =
      text(kShareColours, "unset grid\nunset ytics\nset border 1\n", tics('x', round_steps(0, 100)),
           block("scale", steps), "plot $scale using 1:2:(1.2):(0.5):3 with boxxyerror fc palette fs solid noborder\n");
  canvas.panel(panel);
  canvas.x_label(panel, "% of the step");
}

// Cells say their number: colours alone are no figures.
Picture utilisation_heatmap(const Results& results) {
  const auto batches = batches_of(results);
  const auto lines = batch_lines(results);
  const bool measured = all_rows(results, [](const auto& row) { return row.utilisation.has_value(); });
  const bool known = measured || all_rows(results, [](const auto& row) { return row.sent_bytes && row.time_ms > 0; });
  std::set<std::string> shards;
  for (const auto& row : results.rows) shards.insert(row.shard);
  if ((batches.size() < 2 && shards.size() < 2) || !known) return {};
  double names = 40;
  for (const auto& line : lines) names = std::max(names, std::min(330.0, text_width(line.name, kTextPx)));
  const double left = 16 + names + 8, cell = std::clamp(900 / static_cast<double>(batches.size()), 36.0, 110.0);
  const double high = 26, wide = left + cell * static_cast<double>(batches.size()) + 24;
  Canvas canvas(measured ? "Device utilisation (% of the step)"
                         : "Computed share of a step: 1 - time waited for traffic / time (%)",
                results.common, static_cast<int>(std::max(700.0, wide)));
  const double top = canvas.y();
  std::vector<std::vector<double>> cells;
  for (size_t l = 0; l < lines.size(); ++l) {
    const double y = top + (static_cast<double>(l) + 0.5) * high;
    canvas.text(16 + names, y, fitted(lines[l].name, kTextPx, names), Anchor::right);
    for (size_t b = 0; b < batches.size(); ++b) {
      const auto row = std::find_if(lines[l].rows.begin(), lines[l].rows.end(),
                                    [&](const auto* r) { return r->batch_size == batches[b]; });
      const bool found = row != lines[l].rows.end();
      const double share = found ? share_of(**row, measured) : std::numeric_limits<double>::quiet_NaN();
      cells.push_back({static_cast<double>(b), static_cast<double>(l), share});
      canvas.text(left + (static_cast<double>(b) + 0.5) * cell, y, found ? significant(share) : "-", Anchor::centre,
                  kTextPx, "#101010");
    }
  }
  for (size_t b = 0; b < batches.size(); ++b)
    canvas.text(left + (static_cast<double>(b) + 0.5) * cell, top + high * static_cast<double>(lines.size()) + 12,
                fitted(std::to_string(batches[b]), kTextPx, cell - 4), Anchor::centre);
  Panel panel{.left = left,
              .top = top,
              .right = left + cell * static_cast<double>(batches.size()),
              .bottom = top + high * static_cast<double>(lines.size()),
              .x0 = -0.5,
              .x1 = static_cast<double>(batches.size()) - 0.5,
              .y0 = static_cast<double>(lines.size()) - 0.5,
              .y1 = -0.5};
  panel.script = text(kShareColours, "unset grid\nunset xtics\nunset ytics\nunset border\n", block("cells", cells),
                      "plot $cells using 1:2:(0.485):(0.47):3 with boxxyerror fc palette fs solid noborder\n");
  canvas.panel(panel);
  canvas.x_label(panel, kBatches);
  add_colour_scale(canvas, left);
  return canvas.picture();
}

constexpr PictureRow kSweepPictures[] = {{"memory_vs_batch", memory_vs_batch},
                                         {"tokens_per_second", tokens_per_second},
                                         {"utilisation_heatmap", utilisation_heatmap}};

}  // namespace

std::span<const PictureRow> sweep_pictures() { return kSweepPictures; }

}  // namespace shade::report
