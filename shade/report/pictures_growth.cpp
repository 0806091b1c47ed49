// shade scan: times of phases over the sequence length, measured and fitted, a panel for each method. Lines are named
// at their ends; phases that are a small part of every step are named below instead of drawn.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/report/axes.h"
#include "shade/report/canvas.h"
#include "shade/report/palette.h"
#include "shade/report/pictures.h"

namespace shade::report {
namespace {

constexpr double kBelow = 5;     // the axis begins this much below the lowest line
constexpr double kLeast = 0.02;  // share of the step, at some length, of a phase that is drawn
constexpr double kLeft = 80, kRight = 740, kHigh = 260, kName = 16;
const std::string kStep = "step";

std::string word_at(const Json& phase, const char* key) { return phase.at(key).get<std::string>(); }
double length_of(const Json& point) { return point.at("seq_length").get<double>(); }
double ms_of(const Json& point) { return point.at("ms").get<double>(); }

std::vector<std::string> methods_in(const Json& phases) {
  std::vector<std::string> out;
  for (const auto& phase : phases)
    if (auto word = word_at(phase, "method"); std::find(out.begin(), out.end(), word) == out.end())
      out.push_back(std::move(word));
  return out;
}

// Every run as a point.
std::vector<std::vector<double>> runs_of(const Json& phase) {
  std::vector<std::vector<double>> out;
  for (const auto& point : phase.at("points"))
    for (const auto& ms : point.at("runs"))
      if (ms.get<double>() > 0) out.push_back({length_of(point), ms.get<double>()});
  return out;
}

// The sum of terms through the lengths in between; without a law the medians.
std::vector<std::vector<double>> line_of(const Json& phase) {
  constexpr int kParts = 32;
  const auto& points = phase.at("points");
  std::vector<std::vector<double>> out;
  if (!phase.contains("shares") || !points.back().contains("fit")) {
    for (const auto& point : points)
      if (ms_of(point) > 0) out.push_back({length_of(point), ms_of(point)});
    return out;
  }
  const auto& shares = phase["shares"];
  const double longest = length_of(points.back()), shortest = length_of(points.front());
  for (int i = 0; i <= kParts; ++i) {
    const double at = shortest * std::pow(longest / shortest, static_cast<double>(i) / kParts), t = at / longest;
    out.push_back({at, points.back()["fit"].get<double>() *
                           (shares.at("constant").get<double>() + shares.at("linear").get<double>() * t +
                            shares.at("square").get<double>() * t * t)});
  }
  return out;
}

struct Curve {
  std::string name, verdict;
  std::vector<std::vector<double>> line, runs;  // {length, ms}
};
struct Method {
  std::string name;
  std::vector<Curve> curves;
  std::vector<std::string> small;  // names of phases that are not drawn
};

Method method_of(const Json& phases, const std::string& name) {
  Method out{.name = name, .curves = {}, .small = {}};
  std::map<double, double> step;
  for (const auto& phase : phases)
    if (word_at(phase, "method") == name && word_at(phase, "phase") == kStep)
      for (const auto& point : phase.at("points")) step[length_of(point)] = ms_of(point);
  for (const auto& phase : phases) {
    if (word_at(phase, "method") != name) continue;
    Curve curve{word_at(phase, "phase"), word_at(phase, "verdict"), line_of(phase), runs_of(phase)};
    if (curve.runs.empty() || curve.line.empty()) continue;
    const auto& points = phase.at("points");
    const bool large = std::any_of(points.begin(), points.end(),
                                   [&](const auto& point) { return ms_of(point) >= kLeast * step[length_of(point)]; });
    if (large)
      out.curves.push_back(std::move(curve));
    else
      out.small.push_back(curve.name);
  }
  return out;
}

// What panels share: range, unit, and a colour for a phase.
struct Scales {
  double least_ms = HUGE_VAL, most_ms = 0;
  std::set<int64_t> lengths;
  std::vector<std::string> names;

  std::string colour(const std::string& name) const {
    const auto place = std::find(names.begin(), names.end(), name) - names.begin();
    return name == kStep ? "#303030" : distinct_colour(static_cast<size_t>(place));
  }
};

Scales scales_of(const std::vector<Method>& methods) {
  Scales out;
  for (const auto& method : methods) {
    for (const auto& curve : method.curves) {
      if (curve.name != kStep && std::find(out.names.begin(), out.names.end(), curve.name) == out.names.end())
        out.names.push_back(curve.name);
      for (const auto& point : curve.runs) out.lengths.insert(std::llround(point[0]));
      for (const auto& point : curve.line) out.least_ms = std::min(out.least_ms, point[1] / kBelow);
      for (const auto* points : {&curve.line, &curve.runs})
        for (const auto& point : *points) out.most_ms = std::max(out.most_ms, point[1]);
    }
  }
  return out;
}

// Runs that are much faster than every line, such as a wait that found nothing to wait for, would stretch the axis.
size_t runs_below(const std::vector<Method>& methods, double least_ms) {
  size_t out = 0;
  for (const auto& method : methods)
    for (const auto& curve : method.curves)
      for (const auto& point : curve.runs) out += point[1] < least_ms ? 1 : 0;
  return out;
}

// Powers of ten, and 2 and 5 times those of a short axis.
std::string log10_tics(double low, double high) {
  std::vector<std::string> out;
  for (int power = static_cast<int>(std::floor(low)); power <= static_cast<int>(std::ceil(high)); ++power)
    for (const int times : {1, 2, 5})
      if (const double at = power + std::log10(times); at >= low && at <= high && (times == 1 || high - low < 2.5))
        out.push_back(tic_for_gnuplot(quoted_for_gnuplot(text(times * std::pow(10, power))), at));
  return tics_of('y', out);
}

// The name of each line at the height of its end, or as near as its neighbours allow.
void add_names(Canvas& canvas, const Panel& panel, std::vector<const Curve*> curves, const Scales& scales,
               const Unit& unit) {
  const auto end_of = [&](const Curve& curve) { return panel.y(std::log10(unit.of(curve.line.back()[1]))); };
  std::sort(curves.begin(), curves.end(), [&](const auto* a, const auto* b) { return end_of(*a) < end_of(*b); });
  double y = panel.top - kName / 2;
  for (size_t i = 0; i < curves.size(); ++i) {
    const double below = static_cast<double>(curves.size() - i - 1) * kName;
    y = std::max(y + kName, std::min(end_of(*curves[i]), panel.bottom - below));
    canvas.box(kRight + 14, y - 5, kRight + 24, y + 5, scales.colour(curves[i]->name));
    canvas.text(kRight + 30, y,
                fitted(text(curves[i]->name, ": ", curves[i]->verdict), kTextPx, canvas.width() - kRight - 40));
  }
}

void add_method(Canvas& canvas, const Method& method, const Scales& scales, const Unit& unit, size_t number) {
  canvas.line(method.name, 13);
  const double high = std::max(kHigh, kName * static_cast<double>(method.curves.size()));
  Panel panel{.left = kLeft, .top = canvas.y() + 4, .right = kRight, .bottom = canvas.y() + 4 + high};
  constexpr double kSpace = 0.15;
  panel.x0 = std::log2(static_cast<double>(*scales.lengths.begin())) - kSpace;
  panel.x1 = std::log2(static_cast<double>(*scales.lengths.rbegin())) + kSpace;
  panel.y0 = std::log10(unit.of(scales.least_ms));
  panel.y1 = std::log10(unit.of(scales.most_ms)) + 0.1;
  std::string blocks;
  std::vector<std::string> parts;
  std::vector<const Curve*> curves;
  for (const auto& curve : method.curves) {
    curves.push_back(&curve);
    const auto id = text(number, "_", curves.size());
    blocks += block("line" + id, curve.line) + block("runs" + id, curve.runs);
    const auto at = text(" using (log($1)/log(2)):(log10($2*", unit.factor, ")) with ");
    const auto colour = text(" lc rgb '", scales.colour(curve.name), "'");
    parts.push_back(text("$line", id, at, "lines lw 2", colour));
    parts.push_back(text("$runs", id, at, "points pt 7 ps 0.6", colour));
  }
  panel.script =
      text("set grid ytics\nset border 3\n", log2_tics(panel, {scales.lengths.begin(), scales.lengths.end()}),
           log10_tics(panel.y0, panel.y1), blocks, "plot ", join(parts, ", \\\n  "), "\n");
  add_names(canvas, panel, curves, scales, unit);
  canvas.panel(panel);
  canvas.x_label(panel, "sequence length (tokens)");
  if (!method.small.empty())
    canvas.line(text("Not drawn, below 2 % of the step at every length: ", join(method.small, ", ")), kTextPx,
                "#606060");
  canvas.skip(8);
}

}  // namespace

Picture growth_picture(const Json& scan, const std::string& subtitle) {
  std::vector<Method> methods;
  for (const auto& name : methods_in(scan.at("phases"))) methods.push_back(method_of(scan.at("phases"), name));
  std::erase_if(methods, [](const Method& method) { return method.curves.empty(); });
  if (methods.empty()) return {};
  const auto scales = scales_of(methods);
  const auto unit = time_unit(std::sqrt(scales.least_ms * scales.most_ms));
  const auto below = runs_below(methods, scales.least_ms);
  Canvas canvas("Own time of each phase over the sequence length", subtitle);
  canvas.line(text("Time per step (", unit.name, ") on logarithmic axes; points: runs",
                   below > 0 ? text(" (", below, " below the axis)") : "", ", lines: the fitted law, with its name"),
              kTextPx, "#404040");
  for (size_t i = 0; i < methods.size(); ++i) add_method(canvas, methods[i], scales, unit, i + 1);
  auto out = canvas.picture();
  out.name = "growth";
  return out;
}

}  // namespace shade::report
