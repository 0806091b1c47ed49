// shade scan: times of phases over the sequence length, measured and fitted, a panel for each method.
#include <algorithm>
#include <cmath>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/report/axes.h"
#include "shade/report/palette.h"
#include "shade/report/pictures.h"

namespace shade::report {
namespace {

std::vector<std::string> values_of(const Json& phases, const char* key) {
  std::vector<std::string> out;
  for (const auto& phase : phases)
    if (auto word = phase.at(key).get<std::string>(); std::find(out.begin(), out.end(), word) == out.end())
      out.push_back(std::move(word));
  return out;
}

// Every run as a point.
std::vector<std::vector<double>> runs_of(const Json& phase) {
  std::vector<std::vector<double>> out;
  for (const auto& point : phase.at("points"))
    for (const auto& ms : point.at("runs"))
      if (ms.get<double>() > 0) out.push_back({point.at("seq_length").get<double>(), ms.get<double>()});
  return out;
}

// The sum of terms through the lengths in between; without a law the medians.
std::vector<std::vector<double>> line_of(const Json& phase) {
  constexpr int kParts = 32;
  const auto& points = phase.at("points");
  const auto length = [](const Json& point) { return point.at("seq_length").get<double>(); };
  std::vector<std::vector<double>> out;
  if (!phase.contains("shares") || !points.back().contains("fit")) {
    for (const auto& point : points)
      if (point.at("ms").get<double>() > 0) out.push_back({length(point), point.at("ms").get<double>()});
    return out;
  }
  const auto& shares = phase["shares"];
  const double longest = length(points.back()), shortest = length(points.front());
  for (int i = 0; i <= kParts; ++i) {
    const double at = shortest * std::pow(longest / shortest, static_cast<double>(i) / kParts), t = at / longest;
    out.push_back({at, points.back()["fit"].get<double>() *
                           (shares.at("constant").get<double>() + shares.at("linear").get<double>() * t +
                            shares.at("square").get<double>() * t * t)});
  }
  return out;
}

// A mark at every length, and some space beside the first and the last.
std::string length_axis(const Json& phases) {
  std::vector<std::string> tics;
  double first = HUGE_VAL, last = 0;
  for (const auto& point : phases.back().at("points")) {
    const auto length = point.at("seq_length").get<double>();
    tics.push_back(text("'", length, "' ", Json(length).dump()));
    first = std::min(first, length);
    last = std::max(last, length);
  }
  return text("set xtics (", join(tics, ", "), ")\nset xrange [", Json(first / 1.15).dump(), ":",
              Json(last * 1.15).dump(), "]\n");
}

}  // namespace

Picture growth_picture(const Json& scan) {
  const auto& phases = scan.at("phases");
  if (phases.empty()) return {};
  const auto methods = values_of(phases, "method"), names = values_of(phases, "phase");
  const int columns = methods.size() > 1 ? 2 : 1;
  const int rows = (static_cast<int>(methods.size()) + columns - 1) / columns;
  std::string blocks, panels;
  size_t number = 0;
  for (const auto& method : methods) {
    std::vector<std::string> lines;
    for (const auto& phase : phases) {
      if (phase.at("method") != method || runs_of(phase).empty()) continue;
      const auto name = phase.at("phase").get<std::string>();
      const auto place = static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
      const auto colour = name == "step" ? std::string("#303030") : colour_of_run(place);
      const auto* dashes = place >= 8 && name != "step" ? " dt 2" : "";
      const auto id = text(++number);
      blocks += block("line" + id, line_of(phase)) + block("runs" + id, runs_of(phase));
      lines.push_back(text("$line", id, " using 1:2 with lines lw 2", dashes, " lc rgb '", colour, "' title ",
                           quoted_for_gnuplot(text(name, ": ", phase.at("verdict").get<std::string>()))));
      lines.push_back(text("$runs", id, " using 1:2 with points pt 7 ps 0.6 lc rgb '", colour, "' notitle"));
    }
    panels += text("set title ", quoted_for_gnuplot(method), "\nplot ", join(lines, ", \\\n  "), "\n");
  }
  return {.name = "growth",
          .script = text(blocks,
                         "set logscale x 2\nset logscale y 10\nset format y '%g'\nset xlabel 'sequence length "
                         "(tokens)'\nset ylabel 'time per step (ms)'\n",
                         length_axis(phases), "set multiplot layout ", rows, ",", columns,
                         " title 'Own time of each phase: runs (points) and fitted law (lines)' font ',14'\n", panels,
                         "unset multiplot\n"),
          .width = columns == 1 ? 1000 : 1700,
          .height = 60 + rows * 480};
}

}  // namespace shade::report
