// Strategies against batch sizes: throughput, memory, utilisation.
#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/units.h"
#include "shade/report/axes.h"
#include "shade/report/palette.h"
#include "shade/report/pictures.h"

namespace shade::report {
namespace {

using Rows = std::vector<const ResultRow*>;
struct Series {
  std::string name, shard;
  Rows rows;
};

std::string without_batch(const ResultRow& row) {
  std::vector<std::string> words;
  for (const auto& word : split(row.group, ','))
    if (const auto trimmed = std::string(trim(word)); !trimmed.starts_with("batch ") && trimmed != row.shard)
      words.push_back(trimmed);
  return join(words, ", ");
}

// A line of points: all that is equal but the batch size. Named by the strategy and by what else differs.
std::vector<Series> series_of(const Results& results) {
  std::set<std::string> modes, rest;
  for (const auto& row : results.rows) {
    modes.insert(row.method);
    rest.insert(without_batch(row));
  }
  std::vector<Series> out;
  for (const auto& row : results.rows) {
    auto name = row.shard;
    if (modes.size() > 1) name += " " + row.method;
    if (rest.size() > 1) name += " " + without_batch(row);
    const auto found = std::find_if(out.begin(), out.end(), [&](const auto& series) { return series.name == name; });
    if (found == out.end())
      out.push_back({name, row.shard, {&row}});
    else
      found->rows.push_back(&row);
  }
  return out;
}

std::vector<int64_t> batches_of(const Results& results) {
  std::set<int64_t> out;
  for (const auto& row : results.rows) out.insert(row.batch_size);
  return {out.begin(), out.end()};
}

template <class Wanted>
bool all_rows(const Results& results, Wanted wanted) {
  return std::all_of(results.rows.begin(), results.rows.end(), wanted);
}

// y, low, high
using Value = std::function<std::vector<double>(const ResultRow&)>;

std::string lines_over_batch(const std::vector<Series>& all, const std::vector<int64_t>& batches, const Value& value) {
  std::string blocks;
  std::vector<std::string> parts, tics;
  for (const auto batch : batches) tics.push_back(std::to_string(batch));
  std::map<std::string, int> of_shard;  // further lines of one strategy are told apart by points and dashes
  for (size_t s = 0; s < all.size(); ++s) {
    std::vector<std::vector<double>> lines;
    for (const auto* row : all[s].rows) {
      lines.push_back({static_cast<double>(row->batch_size)});
      const auto more = value(*row);
      lines.back().insert(lines.back().end(), more.begin(), more.end());
    }
    std::sort(lines.begin(), lines.end());
    const int style = of_shard[all[s].shard]++;
    const auto look = text(" lw 2 dt ", style % 5 + 1, " lc rgb '", colour_of_shard(all[s].shard), "'");
    blocks += block(text("s", s), lines);
    parts.push_back(text("$s", s, " using 1:2 with linespoints ps 1.4 pt ", 7 + style % 7, look, " title ",
                         quoted_for_gnuplot(all[s].name)));
    parts.push_back(text("$s", s, " using 1:3:(0):($4-$3) with vectors heads size graph 0.006,90", look, " notitle"));
  }
  const auto margin = std::max(0.5, 0.05 * static_cast<double>(batches.back() - batches.front()));
  return text(blocks, "set xlabel 'batch size a rank (samples)'\nset xtics (", join(tics, ", "), ")\nset xrange [",
              static_cast<double>(batches.front()) - margin, ":", static_cast<double>(batches.back()) + margin,
              "]\nset yrange [0:*]\nplot ", join(parts, ", \\\n  "), "\n");
}

Picture tokens_per_second(const Results& results) {
  const auto batches = batches_of(results);
  if (batches.size() < 2 ||
      !all_rows(results, [](const auto& row) { return row.tokens_per_second > 0 && row.fastest_ms > 0; }))
    return {};
  const auto value = [](const ResultRow& row) -> std::vector<double> {
    const double tokens = row.tokens_per_second * row.time_ms;
    return {row.tokens_per_second, tokens / row.slowest_ms, tokens / row.fastest_ms};
  };
  return {.script = text("set title 'Throughput of all ranks, slowest to fastest step'\nset ylabel 'tokens/s'\n",
                         lines_over_batch(series_of(results), batches, value))};
}

Picture memory_vs_batch(const Results& results) {
  const auto batches = batches_of(results);
  if (batches.size() < 2) return {};  // one is no line
  double largest = 0;
  for (const auto& row : results.rows) largest = std::max(largest, row.peak_mb);
  const auto unit = memory_unit(largest);
  const auto value = [=](const ResultRow& row) -> std::vector<double> {
    const double peak = row.peak_mb * unit.per_mb;
    return {peak, peak, peak};
  };
  return {.script = text("set title 'Peak tensor memory a rank'\nset ylabel 'peak memory (", unit.name, ")'\n",
                         lines_over_batch(series_of(results), batches, value))};
}

double share_of(const ResultRow& row, bool measured) {
  if (measured) return 100 * *row.utilisation;
  return 100 * (1 - row.waits_ms() / row.time_ms);
}

// Cells say their number: colours alone are no figures.
Picture utilisation_heatmap(const Results& results) {
  const auto batches = batches_of(results);
  std::set<std::string> shards;
  for (const auto& row : results.rows) shards.insert(row.shard);
  const bool measured = all_rows(results, [](const auto& row) { return row.utilisation.has_value(); });
  const bool known = measured || all_rows(results, [](const auto& row) { return row.sent_bytes && row.time_ms > 0; });
  if ((batches.size() < 2 && shards.size() < 2) || !known) return {};
  const auto series = series_of(results);
  std::vector<std::string> x, y;
  std::vector<std::vector<double>> cells;
  std::string labels;
  for (size_t b = 0; b < batches.size(); ++b) x.push_back(text("'", batches[b], "' ", b));
  for (size_t s = 0; s < series.size(); ++s) {
    y.push_back(tic_for_gnuplot(quoted_for_gnuplot(series[s].name), static_cast<double>(s)));
    for (size_t b = 0; b < batches.size(); ++b) {
      const auto row = std::find_if(series[s].rows.begin(), series[s].rows.end(),
                                    [&](const auto* r) { return r->batch_size == batches[b]; });
      const bool found = row != series[s].rows.end();
      const double share = found ? share_of(**row, measured) : std::numeric_limits<double>::quiet_NaN();
      cells.push_back({static_cast<double>(b), static_cast<double>(s), share});
      labels += text("set label ", quoted_for_gnuplot(found ? significant(share) + " %" : "not measured"), " at ", b,
                     ",", s, " center front tc rgb '#101010'\n");
    }
  }
  const auto* title = measured ? "Device utilisation" : "Computed share of a step: 1 - time waited for traffic / time";
  const auto places = [](size_t count) { return static_cast<double>(count) - 0.5; };
  return {.script = text("set title '", title,
                         "'\nset xlabel 'batch size a rank (samples)'\nset cblabel '% of the step'\n"
                         "set palette defined (0 '#f4a582', 0.5 '#f7f0d8', 1 '#66c2a5')\nset cbrange [0:100]\n"
                         "unset key\nunset grid\nset xtics (",
                         join(x, ", "), ")\nset ytics (", join(y, ", "), ")\nset xrange [-0.5:", places(x.size()),
                         "]\nset yrange [-0.5:", places(y.size()), "]\n", labels, block("cells", cells),
                         "plot $cells using 1:2:(0.49):(0.49):3 with boxxyerror fc palette fs solid noborder\n"),
          .height = std::clamp(200 + 60 * static_cast<int>(y.size()), 400, 1600)};
}

constexpr PictureRow kPictures[] = {{"memory_vs_batch", memory_vs_batch},
                                    {"tokens_per_second", tokens_per_second},
                                    {"utilisation_heatmap", utilisation_heatmap}};

}  // namespace

std::span<const PictureRow> sweep_pictures() { return kPictures; }

}  // namespace shade::report
