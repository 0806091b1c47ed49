#include "shade/measure/scan.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "shade/base/error.h"
#include "shade/base/median.h"
#include "shade/base/units.h"
#include "shade/catalog/merged_runs.h"
#include "shade/catalog/parts.h"
#include "shade/catalog/remedies.h"

namespace shade::measure {
namespace {

const std::string kNorms = "norms";  // of all layers

using Series = std::map<std::string, Points>;  // by figure

// Of every run, if the result is of several; else the only one.
std::vector<double> runs_of(const Json& result, const char* runs, const Json& one) {
  if (result.contains(runs)) return result[runs].get<std::vector<double>>();
  return {one.get<double>()};
}

void add_times(Series& series, const Json& result) {
  const auto own = catalog::own_runs_of(result);
  SHADE_REQUIRE(!own.empty(),
                "a result has no times of phases without their parts (own_ms); it was measured with --bare or by an "
                "earlier version: measure it again");
  const auto length = result.at("seq_length").get<double>();
  for (const double ms : runs_of(result, "run_times_ms", result.value("median_time_ms", result.at("avg_time_ms"))))
    series["step"].emplace_back(length, ms);
  for (const auto& [phase, times] : own)
    for (const double ms : times) series[phase == to_string(SpanName::norm) ? kNorms : phase].emplace_back(length, ms);
}

void add_memory(Series& series, const Json& result) {
  const auto length = result.at("seq_length").get<double>();
  series["total"].emplace_back(length, result.at("peak_memory_mb").get<double>());
  // Each category at its own highest moment: at the peak's moment they change with what the peak is made of.
  catalog::Parts parts;
  catalog::read_parts(parts, result);
  for (const auto& [kind, mb] : parts.highest_mb.empty() ? parts.breakdown_mb : parts.highest_mb)
    series[kind].emplace_back(length, mb);
}

std::vector<double> lengths_of(const Points& points) {
  std::vector<double> out;
  for (const auto& [length, figure] : points) out.push_back(length);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// The largest first, the whole at the end.
std::vector<FigureGrowth> fitted(const std::string& method, const Series& series, const std::string& whole,
                                 double scatter) {
  std::vector<FigureGrowth> out;
  for (const auto& [figure, points] : series) {
    if (std::all_of(points.begin(), points.end(), [](const auto& point) { return point.second == 0; })) continue;
    out.push_back({method, figure, fit_growth(points, scatter), points});
  }
  const auto longest = lengths_of(series.at(whole)).back();
  std::sort(out.begin(), out.end(), [&](const auto& a, const auto& b) {
    return std::pair(a.figure == whole, -a.median_at(longest)) < std::pair(b.figure == whole, -b.median_at(longest));
  });
  return out;
}

Bottleneck bottleneck_of(const std::vector<FigureGrowth>& phases, const Json& config) {
  const FigureGrowth* worst = nullptr;
  double sum = 0;
  for (const auto& phase : phases) {
    if (phase.figure == "step") continue;
    sum += phase.at_twice();
    if (worst == nullptr || phase.at_twice() > worst->at_twice()) worst = &phase;
  }
  SHADE_CHECK(worst != nullptr, "a method without phases");
  const auto longest = lengths_of(worst->points).back();
  return {.method = worst->method,
          .phase = worst->figure,
          .share = sum > 0 ? worst->at_twice() / sum : 0,
          .length = worst->growth.longest > 0 ? 2 * longest : longest,
          .predicted_ms = worst->at_twice(),
          .verdict = worst->growth.verdict,
          .remedy = remedy_for(worst->figure, worst->growth, config)};
}

Json pair_of(const Interval& interval) { return Json::array({interval.low, interval.high}); }

}  // namespace

double FigureGrowth::median_at(double length) const {
  std::vector<double> there;
  for (const auto& [at, value] : points)
    if (at == length) there.push_back(value);
  return there.empty() ? 0 : median(std::move(there));
}

double FigureGrowth::at_twice() const {
  const double now = median_at(lengths_of(points).back());
  if (growth.longest == 0) return now;
  if (growth.verdict == "falling" || growth.verdict == "faster than O(T^2)") return now * std::pow(2, *growth.exponent);
  return growth.at(2 * growth.longest);
}

Json FigureGrowth::json(const char* key, const char* unit) const {
  Json out{{key, figure},
           {"method", method},
           {"exponent", growth.exponent ? Json(*growth.exponent) : Json()},
           {"interval", growth.interval ? pair_of(*growth.interval) : Json()},
           {"verdict", growth.verdict},
           {"points", Json::array()}};
  if (growth.longest > 0) {
    out["probability"] = growth.probability;
    out["square_share"] = growth.shares[2];
    const char* names[] = {"constant", "linear", "square"};
    for (size_t k = 0; k < 3; ++k) {
      out["shares"][names[k]] = growth.shares[k];
      out["share_intervals"][names[k]] = pair_of(growth.between[k]);
    }
  }
  for (const auto length : lengths_of(points)) {
    Json point{{"seq_length", length}, {unit, median_at(length)}, {"runs", Json::array()}};
    for (const auto& [at, value] : points)
      if (at == length) point["runs"].push_back(value);
    if (growth.longest > 0) point["fit"] = growth.at(length);
    out["points"].push_back(std::move(point));
  }
  return out;
}

std::string Bottleneck::describe() const {
  return text(phase, " of ", method, ": ", verdict, ", ", significant(100 * share, 2), " % of a step at T = ", length);
}

const Bottleneck& ScanVerdict::worst() const {
  return *std::max_element(methods.begin(), methods.end(),
                           [](const auto& a, const auto& b) { return a.predicted_ms < b.predicted_ms; });
}

Json ScanVerdict::json() const {
  Json out{{"phases", Json::array()},
           {"memory", Json::array()},
           {"methods", Json::array()},
           {"bottleneck", worst().describe()},
           {"remedy", worst().remedy}};
  for (const auto& phase : phases) out["phases"].push_back(phase.json("phase", "ms"));
  for (const auto& kind : memory) out["memory"].push_back(kind.json("category", "mb"));
  for (const auto& one : methods)
    out["methods"].push_back({{"method", one.method},
                              {"phase", one.phase},
                              {"bottleneck", one.describe()},
                              {"share", one.share},
                              {"seq_length", one.length},
                              {"remedy", one.remedy}});
  return out;
}

std::string remedy_for(const std::string& phase, const Growth& growth, const Json& config) {
  constexpr size_t kMost = 2;
  const bool square = growth.shares[2] > 0.5 || growth.verdict == "faster than O(T^2)";
  std::vector<std::string> out;
  for (const auto& [name, span] : names_of(SpanName{}))
    if (name == phase || (span == SpanName::norm && phase == kNorms))
      out = catalog::less_time(span, square, catalog::settings_of(config));
  if (out.size() > kMost) out.resize(kMost);
  return out.empty() ? "none known: what helps is on already" : join(out, "; or ");
}

ScanVerdict judge(const std::vector<Scanned>& results) {
  SHADE_REQUIRE(!results.empty(), "there are no results to judge");
  std::vector<std::string> methods;
  std::map<std::string, Series> times, memory;
  std::map<std::string, Json> configs;
  for (const auto& [method, result] : results) {
    if (!times.contains(method)) methods.push_back(method);
    add_times(times[method], result);
    add_memory(memory[method], result);
    configs[method] = result.value("config", Json::object());
  }
  ScanVerdict out;
  for (const auto& method : methods) {
    const auto phases = fitted(method, times[method], "step", kTimeScatter);
    out.methods.push_back(bottleneck_of(phases, configs[method]));
    out.phases.insert(out.phases.end(), phases.begin(), phases.end());
    const auto kinds = fitted(method, memory[method], "total", kMemoryScatter);
    out.memory.insert(out.memory.end(), kinds.begin(), kinds.end());
  }
  return out;
}

}  // namespace shade::measure
