// Where the memory and the time of a step go: stacked by what they are for.
#include <algorithm>

#include "shade/base/error.h"
#include "shade/report/axes.h"
#include "shade/report/bars.h"
#include "shade/report/palette.h"
#include "shade/report/pictures.h"

namespace shade::report {
namespace {

using Rows = std::vector<const ResultRow*>;
using Legend = std::vector<std::pair<std::string, std::string>>;

template <class Wanted>
Rows rows_with(const Results& results, Wanted wanted) {
  Rows out;
  for (const auto& row : results.rows)
    if (wanted(row)) out.push_back(&row);
  return out;
}

// A bar for each row: `fill` says its parts and its words.
template <class Fill>
std::vector<Bar> part_bars(const Results& results, const Rows& rows, Fill fill) {
  std::vector<Bar> out;
  for (const auto& [row, heading, label] : entries_of(AllSeries(results), rows)) {
    Bar bar{.heading = heading, .label = label};
    fill(*row, bar);
    out.push_back(std::move(bar));
  }
  return out;
}

Picture memory_breakdown(const Results& results) {
  const auto rows = rows_with(results, [](const auto& row) { return !row.breakdown_mb.empty(); });
  // Kinds that are a hundredth of no bar would only lengthen the legend: they are part of `other`, the rest of a bar.
  const std::pair<std::string, std::string> rest("other", colour_of_memory("other"));
  Legend kinds;
  for (const auto* row : rows)
    for (const auto& [kind, mb] : row->breakdown_mb)
      if (const std::pair entry(kind, colour_of_memory(kind));
          mb > 0.01 * row->peak_mb && entry != rest && std::find(kinds.begin(), kinds.end(), entry) == kinds.end())
        kinds.push_back(entry);
  if (kinds.empty()) return {};
  const auto unit = memory_unit(results.largest_peak_mb());
  Canvas canvas("Tensor memory at the peak, by what it is for", results.common);
  auto legend = kinds;
  legend.push_back(rest);
  canvas.legend(legend);
  add_bars(canvas, "", text("memory of the largest rank (", unit.name, ")"),
           part_bars(results, rows, [&](const ResultRow& row, Bar& bar) {
             for (const auto& [kind, colour] : kinds)
               bar.parts.push_back({unit.of(amount_of(row.breakdown_mb, kind)), colour});
             bar.parts.push_back({std::max(0.0, unit.of(row.peak_mb) - bar.end()), rest.second});
             bar.words = unit.label(row.peak_mb);
           }));
  return canvas.picture();
}

Picture communication_overhead(const Results& results) {
  const auto rows = rows_with(results, [](const auto& row) { return row.moves_bytes(); });
  if (rows.empty()) return {};
  const AllSeries series(results);
  constexpr const char *kWaited = "#d55e00", *kHidden = "#7cc0f0";
  double most_mb = 0, most_ms = 0;
  const auto under_way_ms = [](const ResultRow& row) { return std::max(row.waits_ms(), row.comm_ms.value_or(0)); };
  const auto sent_mb = [](const ResultRow& row) { return *row.sent_bytes / (1024.0 * 1024.0); };
  for (const auto* row : rows)
    most_mb = std::max(most_mb, sent_mb(*row)), most_ms = std::max(most_ms, under_way_ms(*row));
  const auto unit = memory_unit(most_mb), time = time_unit(most_ms);
  Canvas canvas("Collectives of a step", results.common);
  canvas.legend({{"waited for", kWaited}, {"hidden by computing", kHidden}});
  add_bars(canvas, "Time under way", text("time (", time.name, ")"),
           part_bars(results, rows, [&](const ResultRow& row, Bar& bar) {
             const double waits = row.waits_ms(), all = under_way_ms(row);
             bar.parts = {{time.of(waits), kWaited}, {time.of(all - waits), kHidden}};
             bar.words = text(time.label(all), ", ", time.label(waits), " waited for");
           }));
  add_bars(canvas, "Bytes that a rank sends", text("sent (", unit.name, ")"),
           part_bars(results, rows, [&](const ResultRow& row, Bar& bar) {
             bar.parts = {{unit.of(sent_mb(row)), series.of(row).colour()}};
             bar.words = unit.label(sent_mb(row));
           }));
  return canvas.picture();
}

Picture time_breakdown(const Results& results) {
  const auto rows = rows_with(results, [](const auto& row) { return row.moves_bytes() || row.cpu_overhead_ms; });
  if (rows.empty()) return {};
  const Legend parts{
      {"computing", "#009e73"}, {"waiting for traffic", "#d55e00"}, {"data and preprocessing", "#e6b800"}};
  Canvas canvas("Where the time of a step goes", results.common);
  canvas.legend(parts);
  const auto unit = time_unit(results);
  add_bars(canvas, "", text("step (", unit.name, ")"), part_bars(results, rows, [&](const ResultRow& row, Bar& bar) {
             const double wait = row.moves_bytes() ? row.waits_ms() : 0, data = row.cpu_overhead_ms.value_or(0);
             bar.parts = {{unit.of(std::max(0.0, row.time_ms - wait - data)), parts[0].second},
                          {unit.of(wait), parts[1].second},
                          {unit.of(data), parts[2].second}};
             bar.words = unit.label(row.time_ms);
           }));
  return canvas.picture();
}

constexpr PictureRow kPartsPictures[] = {{"memory_breakdown_comparison", memory_breakdown},
                                         {"communication_overhead", communication_overhead},
                                         {"cpu_communication_breakdown", time_breakdown}};

}  // namespace

std::span<const PictureRow> part_pictures() { return kPartsPictures; }

}  // namespace shade::report
