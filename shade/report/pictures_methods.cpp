// Methods side by side: memory, time, and what privacy costs.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/report/axes.h"
#include "shade/report/findings.h"
#include "shade/report/palette.h"
#include "shade/report/pictures.h"

namespace shade::report {
namespace {

struct Bar {
  double value = 0, low = 0, high = 0;
};
using BarOf = std::function<std::optional<Bar>(const ResultRow&)>;

// Bars grouped by shape, one colour a method; a whisker where low and high differ. Whiskers are arrows with flat heads:
// error bars wipe a spot out of the bar for a point that nobody wants.
std::string bars(const Results& results, const BarPlaces& places, const std::string& prefix, const BarOf& bar_of) {
  std::string blocks;
  std::vector<std::string> boxes, whiskers;
  for (const auto& [method, word] : places.methods) {
    std::vector<std::vector<double>> lines;
    bool spread = false;
    for (const auto& row : results.rows) {
      const auto bar = row.method == method ? bar_of(row) : std::nullopt;
      if (!bar) continue;
      lines.push_back({places.x(row), bar->value, bar->low, bar->high});
      spread = spread || bar->low < bar->high;
    }
    if (lines.empty()) continue;
    const auto name = text(prefix, boxes.size());
    blocks += block(name, lines);
    boxes.push_back(text("$", name, " using 1:2:(", places.width * 0.92, ") with boxes lc rgb '",
                         colour_of_method(method), "' title ", quoted_for_gnuplot(word)));
    if (spread)
      whiskers.push_back(text(
          "$", name, " using 1:3:(0):($4-$3) with vectors heads size graph 0.006,90 lw 1.5 lc rgb '#202020' notitle"));
  }
  boxes.insert(boxes.end(), whiskers.begin(), whiskers.end());
  return boxes.empty() ? "" : blocks + "plot " + join(boxes, ", \\\n  ") + "\n";
}

// Where a bar would be, had the row run.
std::string failed_marks(const Results& results, const BarPlaces& places) {
  std::string out;
  for (const auto& row : results.failures) {
    if (std::find(places.groups.begin(), places.groups.end(), row.group) == places.groups.end()) continue;
    out += text("set label 'did not run' at ", places.x(row), ", graph 0.01 rotate by 90 left font ',10' tc rgb '",
                colour_of_method(row.method), "'\n");
  }
  return out;
}

double largest_peak(const Results& results) {
  double out = 0;
  for (const auto& row : results.rows) out = std::max(out, row.peak_mb);
  return out;
}

Picture memory_comparison(const Results& results) {
  const BarPlaces places(results);
  const auto unit = memory_unit(largest_peak(results));
  return {.script = text("set title 'Peak tensor memory a rank'\nset ylabel 'peak memory (", unit.name,
                         ")'\nset yrange [0:*]\n", places.tics(), failed_marks(results, places),
                         bars(results, places, "m",
                              [&](const auto& row) {
                                const double value = row.peak_mb * unit.per_mb;
                                return Bar{value, value, value};
                              })),
          .width = places.picture_width()};
}

Picture time_comparison(const Results& results) {
  const BarPlaces places(results);
  return {.script = text("set title 'Time of a step: average, and fastest to slowest'\n"
                         "set ylabel 'step (ms)'\nset yrange [0:*]\n",
                         places.tics(), failed_marks(results, places),
                         bars(results, places, "t",
                              [](const auto& row) { return Bar{row.time_ms, row.fastest_ms, row.slowest_ms}; })),
          .width = places.picture_width()};
}

Picture overhead_analysis(const Results& results) {
  const BarPlaces places(results);
  double largest = 0;
  for (const auto& row : results.rows)
    if (const auto cost = cost_of(results, row)) largest = std::max(largest, std::abs(cost->memory_mb));
  const auto unit = memory_unit(largest);
  const auto memory = [&](const ResultRow& row) -> std::optional<Bar> {
    const auto cost = cost_of(results, row);
    if (!cost) return std::nullopt;
    const double value = cost->memory_mb * unit.per_mb;
    return Bar{value, value, value};
  };
  // The whisker is this row's spread over the average of the other: both spreads in one would say less.
  const auto time = [&](const ResultRow& row) -> std::optional<Bar> {
    const auto cost = cost_of(results, row);
    if (!cost) return std::nullopt;
    const double base = results.without_privacy(row)->time_ms;
    return Bar{cost->time_percent, 100 * (row.fastest_ms / base - 1), 100 * (row.slowest_ms / base - 1)};
  };
  const auto upper = bars(results, places, "m", memory);
  if (upper.empty()) return {};
  return {.script = text("set multiplot layout 2,1\nset rmargin 24\n", places.tics(),
                         "set xzeroaxis lt 1 lc rgb '#606060'\nset yrange [*<0:0<*]\n",
                         "set title 'Memory of private steps over no_dp at the same shape'\nset ylabel 'memory (",
                         unit.name, ")'\n", upper,
                         "set title 'Time of private steps over no_dp at the same shape'\nset ylabel 'time (%)'\n",
                         bars(results, places, "t", time), "unset multiplot\n"),
          .width = places.picture_width(),
          .height = 900};
}

// A point a row: its colour is the method, its form the shape.
struct Scatter {
  std::string title, x_label, y_label;
  std::function<std::vector<double>(const ResultRow&)> point;  // x, y, low x, high x
};

int form_of(const BarPlaces& places, const std::string& group) {
  static constexpr std::array kForms{7, 5, 9, 11, 13, 6, 4, 8, 10, 12, 3, 2};  // gnuplot's, filled ones first
  const auto at = std::find(places.groups.begin(), places.groups.end(), group) - places.groups.begin();
  return kForms[static_cast<size_t>(at) % kForms.size()];
}

Picture scatter(const Results& results, const Scatter& what) {
  const BarPlaces places(results);
  std::string script =
      text("set title ", quoted_for_gnuplot(what.title), "\nset xlabel ", quoted_for_gnuplot(what.x_label),
           "\nset ylabel ", quoted_for_gnuplot(what.y_label),
           "\nset grid xtics\nset xrange [0:*]\nset yrange [0:*]\nset offsets 0, graph 0.05, graph 0.08, 0\n");
  std::vector<std::string> parts, keys;
  for (const auto& row : results.rows) {
    const auto name = text("s", parts.size());
    script += block(name, {what.point(row)});
    parts.push_back(text("$", name, " using 1:2:3:4 with xerrorbars ps 1.8 lw 1.5 pt ", form_of(places, row.group),
                         " lc rgb '", colour_of_method(row.method), "' notitle"));
  }
  for (const auto& [method, word] : places.methods)
    keys.push_back(text("NaN with boxes lc rgb '", colour_of_method(method), "' title ", quoted_for_gnuplot(word)));
  if (places.groups.size() > 1)
    for (const auto& group : places.groups)
      keys.push_back(text("NaN with points ps 1.8 pt ", form_of(places, group), " lc rgb '#404040' title ",
                          quoted_for_gnuplot(group)));
  parts.insert(parts.end(), keys.begin(), keys.end());
  return {.script = script + "plot " + join(parts, ", \\\n  ") + "\n", .height = 650};
}

Picture memory_vs_time(const Results& results) {
  const auto unit = memory_unit(largest_peak(results));
  return scatter(results, {.title = "Memory against time: lower left is better",
                           .x_label = "step (ms), fastest to slowest",
                           .y_label = text("peak memory (", unit.name, ")"),
                           .point = [=](const ResultRow& row) -> std::vector<double> {
                             return {row.time_ms, row.peak_mb * unit.per_mb, row.fastest_ms, row.slowest_ms};
                           }});
}

Picture performance_tradeoff(const Results& results) {
  const bool has_tokens = std::all_of(results.rows.begin(), results.rows.end(),
                                      [](const auto& row) { return row.tokens_per_second > 0 && row.fastest_ms > 0; });
  if (!has_tokens) return {};
  const auto unit = memory_unit(largest_peak(results));
  return scatter(results, {.title = "Throughput against memory: lower right is better",
                           .x_label = "tokens/s, slowest to fastest step",
                           .y_label = text("peak memory (", unit.name, ")"),
                           .point = [=](const ResultRow& row) -> std::vector<double> {
                             const double tokens = row.tokens_per_second * row.time_ms;  // of 1000 steps
                             return {row.tokens_per_second, row.peak_mb * unit.per_mb, tokens / row.slowest_ms,
                                     tokens / row.fastest_ms};
                           }});
}

constexpr PictureRow kPictures[] = {{"memory_comparison", memory_comparison},
                                    {"time_comparison", time_comparison},
                                    {"memory_vs_time_tradeoff", memory_vs_time},
                                    {"overhead_analysis", overhead_analysis},
                                    {"performance_tradeoff", performance_tradeoff}};

}  // namespace

std::span<const PictureRow> method_pictures() { return kPictures; }

}  // namespace shade::report
