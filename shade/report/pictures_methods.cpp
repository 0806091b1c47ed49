// Methods and strategies side by side: memory, time, and what privacy costs.
#include <algorithm>
#include <functional>

#include "shade/base/error.h"
#include "shade/base/units.h"
#include "shade/report/axes.h"
#include "shade/report/bars.h"
#include "shade/report/findings.h"
#include "shade/report/pictures.h"

namespace shade::report {
namespace {

using Legend = std::vector<std::pair<std::string, std::string>>;

// Fills value, whisker and words of a row's bar. False: it has none.
using Fill = std::function<bool(const ResultRow& row, const std::string& colour, Bar& bar)>;

Legend legend_of(const AllSeries& series, bool only_private = false) {
  Legend out;
  if (series.list().size() > 1)
    for (const auto& one : series.list())
      if (!only_private || one.method != "no_dp") out.emplace_back(one.word, one.colour());
  return out;
}

// Failed rows have their place too, with `failed` words.
std::vector<Bar> bars_of(const Results& results, const AllSeries& series, bool with_failures, const Fill& fill) {
  std::vector<const ResultRow*> rows;
  Bar ignored;
  for (const auto& row : results.rows)
    if (fill(row, "", ignored)) rows.push_back(&row);
  if (with_failures)
    for (const auto& row : results.failures) rows.push_back(&row);
  std::vector<Bar> out;
  for (const auto& [row, heading, label] : entries_of(series, rows)) {
    Bar bar{.heading = heading, .label = label};
    if (row->failed())
      bar.words = "did not run", bar.words_colour = "#c2352b";
    else
      fill(*row, series.of(*row).colour(), bar);
    out.push_back(std::move(bar));
  }
  return out;
}

Picture memory_comparison(const Results& results) {
  const AllSeries series(results);
  const auto unit = memory_unit(results.largest_peak_mb());
  Canvas canvas("Peak tensor memory per rank", results.common);
  canvas.legend(legend_of(series));
  add_bars(canvas, "", text("peak memory (", unit.name, ")"),
           bars_of(results, series, true, [&](const ResultRow& row, const std::string& colour, Bar& bar) {
             bar.parts = {{unit.of(row.peak_mb), colour}};
             bar.words = unit.label(row.peak_mb);
             return true;
           }));
  return canvas.picture();
}

Picture time_comparison(const Results& results) {
  const AllSeries series(results);
  Canvas canvas(results.all_planned() ? "Predicted time of a step"
                                      : text("Median time of a step (line: ", results.range_text(), ")"),
                results.common);
  canvas.legend(legend_of(series));
  const auto unit = time_unit(results);
  add_bars(canvas, "", text("step (", unit.name, ")"),
           bars_of(results, series, true, [&](const ResultRow& row, const std::string& colour, Bar& bar) {
             const auto [low, high] = results.range_ms(row);
             bar.parts = {{unit.of(row.time_ms), colour}};
             bar.whisker = {unit.of(low), unit.of(high)};
             bar.words = unit.label(row.time_ms);
             return true;
           }));
  return canvas.picture();
}

Picture overhead_analysis(const Results& results) {
  double largest = 0;
  bool any = false;
  for (const auto& row : results.rows) {
    const auto cost = cost_of(results, row);
    any = any || cost;
    largest = std::max(largest, cost ? std::abs(cost->memory_mb) : 0);
  }
  if (!any) return {};
  const AllSeries series(results);
  const auto unit = memory_unit(largest);
  const auto over = "over " + results.baseline();
  Canvas canvas(text("What privacy costs: private rows ", over, " of the same shape"), results.common);
  canvas.legend(legend_of(series, true));
  add_bars(canvas, "Peak memory", text(over, " (", unit.name, ")"),
           bars_of(results, series, false, [&](const ResultRow& row, const std::string& colour, Bar& bar) {
             const auto cost = cost_of(results, row);
             if (!cost) return false;
             bar.parts = {{unit.of(cost->memory_mb), colour}};
             bar.words = text(unit.label(cost->memory_mb), " (", signed_percent(cost->memory_percent), ")");
             return true;
           }));
  add_bars(canvas, "Time, by medians (line: 99 % interval)", over + " (%)",
           bars_of(results, series, false, [&](const ResultRow& row, const std::string& colour, Bar& bar) {
             const auto cost = cost_of(results, row);
             if (!cost) return false;
             bar.parts = {{cost->time_percent, colour}};
             const auto& twin = *results.without_privacy(row);
             if (const auto* ratio = ratio_between(row, twin); ratio != nullptr && ratio->interval)
               bar.whisker = {100 * (ratio->interval->first - 1), 100 * (ratio->interval->second - 1)};
             bar.words = time_cost_text(row, twin);
             return true;
           }));
  return canvas.picture();
}

constexpr PictureRow kMethodsPictures[] = {{"memory_comparison", memory_comparison},
                                           {"time_comparison", time_comparison},
                                           {"overhead_analysis", overhead_analysis}};

}  // namespace

std::span<const PictureRow> method_pictures() { return kMethodsPictures; }

}  // namespace shade::report
