// Where the memory and the time of a step go: stacked by what they are for.
#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/report/axes.h"
#include "shade/report/palette.h"
#include "shade/report/pictures.h"

namespace shade::report {
namespace {

using Rows = std::vector<const ResultRow*>;

template <class Wanted>
Rows rows_with(const Results& results, Wanted wanted) {
  Rows out;
  for (const auto& row : results.rows)
    if (wanted(row)) out.push_back(&row);
  return out;
}

struct Layer {
  std::string name, colour;
  std::vector<double> values;  // one a row
};

// Boxes over each other: the highest sum first, so that each leaves its own slice to be seen.
std::string stacked(const RowPlaces& places, const std::vector<Layer>& layers) {
  std::vector<std::vector<double>> lines(places.x.size());
  for (size_t r = 0; r < lines.size(); ++r) {
    lines[r].push_back(places.x[r]);
    double sum = 0;
    for (const auto& layer : layers) lines[r].push_back(sum += layer.values[r]);
  }
  std::vector<std::string> parts;
  for (size_t l = layers.size(); l-- > 0;)
    parts.push_back(text("$stack using 1:", l + 2, ":(0.85) with boxes lc rgb '", layers[l].colour, "' title ",
                         quoted_for_gnuplot(layers[l].name)));
  return block("stack", lines) + "plot " + join(parts, ", \\\n  ") + "\n";
}

double amount(const Amounts& amounts, const std::string& name) {
  for (const auto& [key, value] : amounts)
    if (key == name) return value;
  return 0;
}

// Kinds that are a hundredth of no bar would only lengthen the legend.
std::vector<Layer> memory_layers(const Rows& rows, const Unit& unit) {
  std::vector<std::string> kinds;
  for (const auto* row : rows)
    for (const auto& [kind, mb] : row->breakdown_mb)
      if (mb > 0.01 * row->peak_mb && std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  std::vector<Layer> layers;
  for (const auto& kind : kinds) {
    layers.push_back({.name = kind, .colour = colour_of_memory(kind), .values = {}});
    for (const auto* row : rows) layers.back().values.push_back(amount(row->breakdown_mb, kind) * unit.per_mb);
  }
  return layers;
}

Picture memory_breakdown(const Results& results) {
  const auto rows = rows_with(results, [](const auto& row) { return !row.breakdown_mb.empty(); });
  if (rows.empty()) return {};
  double largest = 0;
  for (const auto* row : rows) largest = std::max(largest, row->peak_mb);
  const auto unit = memory_unit(largest);
  const RowPlaces places(rows);
  const auto layers = memory_layers(rows, unit);
  if (layers.empty()) return {};
  return {.script = text("set title 'Tensor memory at the peak, by what it is for'\nset ylabel 'memory of the largest "
                         "rank (",
                         unit.name, ")'\nset yrange [0:*]\n", places.tics(), stacked(places, layers)),
          .width = places.picture_width(),
          .height = 700};
}

// Of the shape with the largest peak: other shapes have the same course, lower.
Rows largest_shape(const Rows& rows) {
  const auto* largest =
      *std::max_element(rows.begin(), rows.end(), [](const auto* a, const auto* b) { return a->peak_mb < b->peak_mb; });
  Rows out;
  for (const auto* row : rows)
    if (row->group == largest->group) out.push_back(row);
  return out;
}

// The course of one step, a line a row; empty: no row knows it.
std::string memory_courses(const Rows& rows, const Unit& unit) {
  std::string blocks;
  std::vector<std::string> parts;
  for (size_t r = 0; r < rows.size(); ++r) {
    if (rows[r]->course.size() < 2) continue;
    std::vector<std::vector<double>> lines;
    for (const auto& [ms, mb] : rows[r]->course) lines.push_back({ms, mb * unit.per_mb});
    blocks += block(text("c", r), lines);
    parts.push_back(text("$c", r, " using 1:2 with steps lw 2 lc rgb '", colour_of_method(rows[r]->method), "' title ",
                         quoted_for_gnuplot(rows[r]->mode)));
  }
  if (parts.empty()) return "";
  return text(blocks, "set title 'The same, through one step'\nset xlabel 'time since the step began (ms)'\n",
              "set xtics autofreq\nset xrange [0:*]\nplot ", join(parts, ", \\\n  "), "\nunset multiplot\n");
}

// Names of stages meet where bars are narrow.
std::string in_two_lines(const std::string& stage) {
  const auto last = stage.rfind(' ');
  if (last == std::string::npos) return quoted_for_gnuplot(stage);
  return quoted_for_gnuplot(stage.substr(0, last), stage.substr(last + 1));
}

// Bars by stage: what is allocated then, and paler above it the highest so far.
Picture memory_timeline(const Results& results) {
  const auto all = rows_with(results, [](const auto& row) { return !row.snapshots.empty(); });
  if (all.empty()) return {};
  const auto rows = largest_shape(all);
  std::vector<std::string> stages;
  double largest = 0;
  for (const auto* row : rows) {
    for (const auto& snapshot : row->snapshots) {
      largest = std::max(largest, snapshot.highest_mb);
      if (std::find(stages.begin(), stages.end(), snapshot.stage) == stages.end()) stages.push_back(snapshot.stage);
    }
  }
  const auto unit = memory_unit(largest);
  const double width = 0.8 / static_cast<double>(rows.size());
  std::string blocks;
  std::vector<std::string> high, now, tics;
  for (size_t s = 0; s < stages.size(); ++s)
    tics.push_back(tic_for_gnuplot(in_two_lines(stages[s]), static_cast<double>(s)));
  for (size_t r = 0; r < rows.size(); ++r) {
    std::vector<std::vector<double>> lines;
    for (const auto& snapshot : rows[r]->snapshots) {
      const auto stage = std::find(stages.begin(), stages.end(), snapshot.stage) - stages.begin();
      const double x =
          static_cast<double>(stage) + (static_cast<double>(r) - (static_cast<double>(rows.size()) - 1) / 2) * width;
      lines.push_back({x, snapshot.allocated_mb * unit.per_mb, snapshot.highest_mb * unit.per_mb});
    }
    const auto name = text("r", r), colour = colour_of_method(rows[r]->method);
    blocks += block(name, lines);
    high.push_back(
        text("$", name, " using 1:3:(", width * 0.92, ") with boxes fs solid 0.3 lc rgb '", colour, "' notitle"));
    now.push_back(text("$", name, " using 1:2:(", width * 0.92, ") with boxes lc rgb '", colour, "' title ",
                       quoted_for_gnuplot(rows[r]->mode)));
  }
  high.insert(high.end(), now.begin(), now.end());
  const auto shape = rows[0]->group.empty() ? "" : ", " + rows[0]->group;
  const auto courses = memory_courses(rows, unit);
  return {
      .script = text(courses.empty() ? "" : "set multiplot layout 2,1\n", "set title ",
                     quoted_for_gnuplot("Tensor memory by stage (pale: highest so far)" + shape),
                     "\nset ylabel 'memory of rank 0 (", unit.name, ")'\nset yrange [0:*]\nset bmargin 4\nset xtics (",
                     join(tics, ", "), ")\nset xrange [-0.6:", static_cast<double>(stages.size()) - 0.4, "]\n", blocks,
                     "plot ", join(high, ", \\\n  "), "\n", courses),
      .height = courses.empty() ? 600 : 1000};
}

// Bars beside each other at a row's place.
std::string beside(const RowPlaces& places, const std::string& prefix, const std::vector<Layer>& layers) {
  const double width = 0.85 / static_cast<double>(layers.size());
  std::string blocks;
  std::vector<std::string> parts;
  for (size_t l = 0; l < layers.size(); ++l) {
    std::vector<std::vector<double>> lines;
    for (size_t r = 0; r < places.x.size(); ++r)
      lines.push_back({places.x[r] - 0.425 + (static_cast<double>(l) + 0.5) * width, layers[l].values[r]});
    blocks += block(text(prefix, l), lines);
    parts.push_back(text("$", prefix, l, " using 1:2:(", width * 0.95, ") with boxes lc rgb '", layers[l].colour,
                         "' title ", quoted_for_gnuplot(layers[l].name)));
  }
  return blocks + "plot " + join(parts, ", \\\n  ") + "\n";
}

Picture communication_overhead(const Results& results) {
  const auto rows = rows_with(results, [](const auto& row) { return row.moves_bytes(); });
  if (rows.empty()) return {};
  Layer under_way{.name = "under way", .colour = "#7cc0f0", .values = {}};
  Layer exposed{.name = "waited for", .colour = "#d55e00", .values = {}};
  Layer sent{.name = "sent", .colour = "#009e73", .values = {}};
  for (const auto* row : rows) {
    under_way.values.push_back(row->comm_ms.value_or(0));
    exposed.values.push_back(row->waits_ms());
    sent.values.push_back(*row->sent_bytes / (1024.0 * 1024.0));
  }
  const auto unit = memory_unit(*std::max_element(sent.values.begin(), sent.values.end()));
  for (auto& value : sent.values) value *= unit.per_mb;
  const RowPlaces places(rows);
  return {.script = text("set multiplot layout 2,1\nset yrange [0:*]\nset rmargin 24\n", places.tics(),
                         "set title 'Collectives of a step: under way, and waited for (not hidden by computing)'\n"
                         "set ylabel 'time (ms)'\n",
                         beside(places, "t", {under_way, exposed}),
                         "set title 'Bytes a rank sends in a step'\nset ylabel 'sent (", unit.name, ")'\n",
                         beside(places, "b", {sent}), "unset multiplot\n"),
          .width = places.picture_width(),
          .height = 950};
}

Picture time_breakdown(const Results& results) {
  const auto rows = rows_with(results, [](const auto& row) { return row.moves_bytes() || row.cpu_overhead_ms; });
  if (rows.empty()) return {};
  Layer computing{.name = "computing", .colour = "#009e73", .values = {}};
  Layer waiting{.name = "waiting for traffic", .colour = "#d55e00", .values = {}};
  Layer cpu{.name = "data and preprocessing", .colour = "#e6b800", .values = {}};
  const auto any = [](const Layer& layer) {
    return std::any_of(layer.values.begin(), layer.values.end(), [](double value) { return value > 0; });
  };
  for (const auto* row : rows) {
    const double wait = row->moves_bytes() ? row->waits_ms() : 0;
    const double data = row->cpu_overhead_ms.value_or(0);
    computing.values.push_back(std::max(0.0, row->time_ms - wait - data));
    waiting.values.push_back(wait);
    cpu.values.push_back(data);
  }
  std::vector<Layer> layers{computing};
  for (const auto& layer : {waiting, cpu})
    if (any(layer)) layers.push_back(layer);
  const RowPlaces places(rows);
  return {.script = text("set title 'Where the time of a step goes'\nset ylabel 'step (ms)'\nset yrange [0:*]\n",
                         places.tics(), stacked(places, layers)),
          .width = places.picture_width(),
          .height = 650};
}

constexpr PictureRow kPictures[] = {{"memory_breakdown_comparison", memory_breakdown},
                                    {"memory_timeline", memory_timeline},
                                    {"communication_overhead", communication_overhead},
                                    {"cpu_communication_breakdown", time_breakdown}};

}  // namespace

std::span<const PictureRow> part_pictures() { return kPictures; }

}  // namespace shade::report
