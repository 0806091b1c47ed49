// Training runs over steps, one colour a run: accuracy of classifiers, losses, and under them what privacy was spent.
#include <algorithm>
#include <cmath>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/units.h"
#include "shade/report/axes.h"
#include "shade/report/palette.h"
#include "shade/report/pictures.h"

namespace shade::report {
namespace {

std::vector<std::vector<double>> points_of(const Curve& curve, double factor = 1) {
  std::vector<std::vector<double>> out;
  for (const auto& [step, value] : curve) out.push_back({static_cast<double>(step), factor * value});
  return out;
}

std::string digits(double value) { return Json(value).dump(); }  // all of them

std::string title_of(const TrainingRun& run) {
  const auto privacy = run.privacy();
  return quoted_for_gnuplot(privacy.empty() ? run.name : text(run.name, ", ", privacy));
}

// Horizontal, over the whole width, with its words in the right margin: there no curve crosses them.
std::string reference_lines(const std::vector<ReferenceLine>& lines) {
  std::string out;
  for (const auto& [value, words] : lines) {
    out += text("set arrow from graph 0, first ", digits(value), " to graph 1, first ", digits(value),
                " nohead back lw 1.3 dt 2 lc rgb '#8a8a8a'\nset label ", quoted_for_gnuplot(words, significant(value)),
                " at graph 1.012, first ", digits(value), " left offset 0, 0.4 font ',10' tc rgb '#606060'\n");
  }
  return out;
}

// gnuplot scales to curves alone; a reference line is to be seen too.
std::string loss_range(const std::vector<TrainingRun>& runs, const LossChart& chart,
                       const std::vector<ReferenceLine>& lines) {
  double low = HUGE_VAL, high = -HUGE_VAL;
  const auto cover = [&](double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  };
  for (const auto r : chart.runs)
    for (const auto* curve : {&runs[r].loss, &runs[r].held_out})
      for (const auto& [step, value] : *curve) cover(value);
  for (const auto& line : lines) cover(line.value);
  if (low > high) return "";
  const double margin = high > low ? 0.04 * (high - low) : std::max(0.1 * std::abs(high), 1e-3);
  const double bottom = low >= 0 ? std::max(0.0, low - margin) : low - margin;
  return text("set yrange [", digits(bottom), ":", digits(high + margin), "]\n");
}

// Panels are drawn from top to bottom; the first one has the legend, above its curves, where it hides none.
struct CurvePanel {
  int height = 0;                  // without the legend
  std::string settings;            // of the axis, and blocks of data
  std::vector<std::string> plots;  // empty: nothing to draw
};

CurvePanel loss_panel(const std::vector<TrainingRun>& runs, const LossChart& chart,
                      const std::vector<ReferenceLine>& lines, int height) {
  std::string label = chart.title;
  label.front() = 'l';
  CurvePanel out{.height = height,
                 .settings = text("set ylabel ", quoted_for_gnuplot(label), "\n", loss_range(runs, chart, lines),
                                  reference_lines(lines)),
                 .plots = {}};
  std::vector<std::string> marked;
  for (const auto r : chart.runs) {
    const auto& run = runs[r];
    const auto colour = colour_of_run(r);
    if (!run.loss.empty()) {
      out.settings += block(text("loss", r), points_of(run.loss));
      out.plots.push_back(text("$loss", r, " using 1:2 with lines lw 1.2 lc rgb '", colour, "' notitle"));
    }
    if (!run.held_out.empty()) {
      out.settings += block(text("held", r), points_of(run.held_out));
      marked.push_back(text("$held", r, " using 1:2 with linespoints lw 2.4 pt 7 ps 1 lc rgb '", colour, "' notitle"));
    }
  }
  out.plots.insert(out.plots.end(), marked.begin(), marked.end());
  return out;
}

// A low panel has room for four tics: 1, 2 or 5 times a power of ten apart.
std::string range_from_zero(double highest) {
  if (!(highest > 0)) return "set ytics autofreq\nset yrange [0:1]\n";
  const double least = highest / 4.5, power = std::pow(10, std::floor(std::log10(least)));
  const double apart = least <= power       ? power
                       : least <= 2 * power ? 2 * power
                       : least <= 5 * power ? 5 * power
                                            : 10 * power;
  return text("set ytics ", apart, "\nset yrange [0:", 1.08 * highest, "]\n");
}

double highest_of(const Curve& curve) {
  double out = 0;
  for (const auto& [step, value] : curve)
    if (std::isfinite(value)) out = std::max(out, value);
  return out;
}

CurvePanel epsilon_panel(const std::vector<TrainingRun>& runs) {
  CurvePanel out{.height = 210, .settings = "set ylabel 'epsilon spent'\n", .plots = {}};
  double highest = 0;
  for (size_t r = 0; r < runs.size(); ++r) {
    if (runs[r].epsilon.empty()) continue;
    highest = std::max(highest, highest_of(runs[r].epsilon));
    out.settings += block(text("epsilon", r), points_of(runs[r].epsilon));
    out.plots.push_back(text("$epsilon", r, " using 1:2 with lines lw 2.4 dt ",
                             runs[r].void_epsilon || runs[r].first_without ? 3 : 1, " lc rgb '", colour_of_run(r),
                             "' notitle"));
  }
  out.settings += range_from_zero(highest);
  return out;
}

// A classifier against the accuracy of always naming the most frequent class, dashed.
CurvePanel accuracy_panel(const std::vector<TrainingRun>& runs) {
  CurvePanel out{.height = 250, .settings = "set ylabel 'accuracy, %'\n", .plots = {}};
  double highest = 0;
  for (size_t r = 0; r < runs.size(); ++r) {
    for (const auto& [key, style] :
         {std::pair("accuracy", "linespoints lw 2.4 pt 7 ps 1"), {kMajority, "lines lw 1.6 dt 2"}}) {
      const auto found = runs[r].scores.find(key);
      if (found == runs[r].scores.end()) continue;
      highest = std::max(highest, 100 * highest_of(found->second));
      out.settings += block(text(key, r), points_of(found->second, 100));
      out.plots.push_back(text("$", key, r, " using 1:2 with ", style, " lc rgb '", colour_of_run(r), "' notitle"));
    }
  }
  out.settings += range_from_zero(highest);
  return out;
}

std::vector<std::string> legend_entries(const std::vector<TrainingRun>& runs, bool has_majority) {
  std::vector<std::string> out;
  for (size_t r = 0; r < runs.size(); ++r)
    out.push_back(text("NaN with boxes lc rgb '", colour_of_run(r), "' title ", title_of(runs[r])));
  out.emplace_back("NaN with lines lw 1.2 lc rgb '#505050' title 'batch'");
  out.emplace_back("NaN with linespoints lw 2.4 pt 7 ps 1 lc rgb '#505050' title 'held out'");
  if (has_majority) out.emplace_back("NaN with lines lw 1.6 dt 2 lc rgb '#505050' title 'most frequent class'");
  return out;
}

int right_margin(const std::vector<ReferenceLine>& lines) {
  size_t letters = 2;
  for (const auto& line : lines) letters = std::max(letters, line.words.size());
  return static_cast<int>(std::min<size_t>(letters, 40)) + 2;
}

}  // namespace

Picture training_picture(const std::vector<TrainingRun>& runs, const std::vector<ReferenceLine>& lines) {
  int64_t steps = 1;
  for (const auto& run : runs) steps = std::max(steps, run.steps());
  std::vector<CurvePanel> panels{accuracy_panel(runs)};
  const bool has_accuracy = !panels.front().plots.empty();
  const auto charts = loss_charts(runs);
  for (size_t i = 0; i < charts.size(); ++i)
    panels.push_back(loss_panel(runs, charts[i], i == 0 ? lines : std::vector<ReferenceLine>{},
                                charts.size() == 1 && !has_accuracy ? 460 : 320));
  panels.push_back(epsilon_panel(runs));
  std::erase_if(panels, [](const auto& panel) { return panel.plots.empty(); });
  if (panels.empty()) panels.push_back({.height = 460, .settings = "set yrange [0:1]\n", .plots = {}});
  // The legend has the runs in one column, and the kinds of line beside them.
  const auto rows = std::max<size_t>(has_accuracy ? 3 : 2, runs.size());
  const auto entries = legend_entries(runs, has_accuracy);
  panels.front().plots.insert(panels.front().plots.end(), entries.begin(), entries.end());
  panels.front().height += 20 * static_cast<int>(rows);
  int height = 0;
  for (const auto& panel : panels) height += panel.height;

  auto script = text("set xrange [0:", steps, "]\nset lmargin 10\nset rmargin ", right_margin(lines),
                     "\nset key tmargin left vertical maxrows ", rows, " Left reverse width 2 samplen 2.5\n");
  if (panels.size() > 1) script += "set multiplot\n";
  int below = height;
  for (const auto& panel : panels) {
    below -= panel.height;
    if (panels.size() > 1)
      script += text("set origin 0, ", static_cast<double>(below) / height, "\nset size 1, ",
                     static_cast<double>(panel.height) / height, "\n");
    if (below == 0) script += "set xlabel 'steps'\n";
    script += text(panel.settings, "plot ", join(panel.plots, ", \\\n  "),
                   "\nunset key\nunset arrow\nunset label\nset ytics autofreq\n");
  }
  if (panels.size() > 1) script += "unset multiplot\n";
  return {.name = "training", .script = script, .width = 1000, .height = height};
}

}  // namespace shade::report
