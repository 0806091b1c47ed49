// Training runs: loss over steps, one colour a run, and under it what privacy was spent.
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

std::vector<std::vector<double>> points_of(const Curve& curve) {
  std::vector<std::vector<double>> out;
  for (const auto& [step, value] : curve) out.push_back({static_cast<double>(step), value});
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
std::string loss_range(const std::vector<TrainingRun>& runs, const std::vector<ReferenceLine>& lines) {
  double low = HUGE_VAL, high = -HUGE_VAL;
  const auto cover = [&](double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  };
  for (const auto& run : runs)
    for (const auto* curve : {&run.loss, &run.held_out})
      for (const auto& [step, value] : *curve) cover(value);
  for (const auto& line : lines) cover(line.value);
  if (low > high) return "";
  const double margin = high > low ? 0.04 * (high - low) : std::max(0.1 * std::abs(high), 1e-3);
  const double bottom = low >= 0 ? std::max(0.0, low - margin) : low - margin;
  return text("set yrange [", digits(bottom), ":", digits(high + margin), "]\n");
}

std::string losses(const std::vector<TrainingRun>& runs) {
  std::string blocks;
  std::vector<std::string> thin, marked;
  for (size_t r = 0; r < runs.size(); ++r) {
    const auto& run = runs[r];
    const auto colour = colour_of_run(r);
    if (!run.loss.empty()) {
      blocks += block(text("loss", r), points_of(run.loss));
      thin.push_back(text("$loss", r, " using 1:2 with lines lw 1.2 lc rgb '", colour, "' notitle"));
    }
    if (!run.held_out.empty()) {
      blocks += block(text("held", r), points_of(run.held_out));
      marked.push_back(text("$held", r, " using 1:2 with linespoints lw 2.4 pt 7 ps 1 lc rgb '", colour, "' notitle"));
    }
    marked.push_back(text("NaN with boxes lc rgb '", colour, "' title ", title_of(run)));
  }
  marked.emplace_back("NaN with lines lw 1.2 lc rgb '#505050' title 'batch'");
  marked.emplace_back("NaN with linespoints lw 2.4 pt 7 ps 1 lc rgb '#505050' title 'held out'");
  thin.insert(thin.end(), marked.begin(), marked.end());
  return blocks + "plot " + join(thin, ", \\\n  ") + "\n";
}

std::string epsilons(const std::vector<TrainingRun>& runs) {
  std::string blocks;
  std::vector<std::string> parts;
  for (size_t r = 0; r < runs.size(); ++r) {
    if (runs[r].epsilon.empty()) continue;
    blocks += block(text("epsilon", r), points_of(runs[r].epsilon));
    parts.push_back(text("$epsilon", r, " using 1:2 with lines lw 2.4 dt ",
                         runs[r].void_epsilon || runs[r].first_without ? 3 : 1, " lc rgb '", colour_of_run(r),
                         "' notitle"));
  }
  return parts.empty() ? "" : blocks + "plot " + join(parts, ", \\\n  ") + "\n";
}

// A low panel has room for four tics: 1, 2 or 5 times a power of ten apart.
std::string epsilon_range(const std::vector<TrainingRun>& runs) {
  double highest = 0;
  for (const auto& run : runs)
    for (const auto& [step, value] : run.epsilon)
      if (std::isfinite(value)) highest = std::max(highest, value);
  if (highest == 0) return "set yrange [0:1]\n";
  const double least = highest / 4.5, power = std::pow(10, std::floor(std::log10(least)));
  const double apart = least <= power       ? power
                       : least <= 2 * power ? 2 * power
                       : least <= 5 * power ? 5 * power
                                            : 10 * power;
  return text("set ytics ", apart, "\nset yrange [0:", 1.08 * highest, "]\n");
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
  const auto privacy = epsilons(runs);
  const auto rows = std::max<size_t>(2, runs.size());  // of the legend: the runs, and beside them the two kinds of line
  const auto legend = 20 * static_cast<int>(rows);
  const int upper = 460 + legend, lower = privacy.empty() ? 0 : 210;
  const double share = static_cast<double>(lower) / (upper + lower);
  const auto* steps_label = "set xlabel 'steps'\n";
  auto script = text("set xrange [0:", steps, "]\nset lmargin 9\nset rmargin ", right_margin(lines),
                     // Above the curves, where it hides none.
                     "\nset key tmargin left vertical maxrows ", rows, " Left reverse width 2 samplen 2.5\n");
  if (lower > 0) script += text("set multiplot\nset origin 0, ", share, "\nset size 1, ", 1 - share, "\n");
  script += text("set ylabel 'loss'\n", lower > 0 ? "" : steps_label, loss_range(runs, lines), reference_lines(lines),
                 losses(runs));
  if (lower > 0)
    script += text("unset arrow\nunset label\nunset key\nset origin 0, 0\nset size 1, ", share, "\n", steps_label,
                   "set ylabel 'epsilon spent'\n", epsilon_range(runs), privacy, "unset multiplot\n");
  return {.name = "training", .script = script, .width = 1000, .height = upper + lower};
}

}  // namespace shade::report
