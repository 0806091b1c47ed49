#include "shade/measure/scan.h"

#include <algorithm>
#include <map>

#include "shade/base/error.h"

namespace shade::measure {
namespace {

// Phases nest: what a backward does besides norms and samples' gradients is the backward itself.
std::map<std::string, double> exclusive(const Json& result) {
  std::map<std::string, double> out;
  double inside = 0;
  for (const auto& [name, ms] : result.at("phases_ms").items()) {
    const double time = ms.get<double>();
    if (name == "comm_wait" || name == "reduce") continue;  // counted as gather_wait and reduce_wait
    if (name == "norm" || name == "sample_gradients" || name == "gather_wait") inside += time;
    out[name == "norm" ? "norms" : name] = time;
  }
  for (const auto* backward : {"backward", "first_backward"})
    if (out.contains(backward)) out[backward] = std::max(1e-3, out[backward] - inside);
  out["step"] = result.at("avg_time_ms").get<double>();
  return out;
}

std::string remedy_for(const std::string& phase, const Growth& growth) {
  const bool square = growth.square > 0.5;
  if (phase == "norms")
    return square ? "norms by Gram matrices grow with T^2: --norm-algorithm input_length, or --dp flash_bookkeeping"
                  : "norms are linear in T; --dp auto keeps each sample's gradient where that is cheaper than a norm "
                    "of its own";
  if (phase == "forward" || phase.ends_with("backward"))
    return square ? "attention grows with T^2 and can't be avoided by clipping: --attention flash, --dtype bf16, "
                    "shorter texts"
                  : "computation is linear in T: --dtype bf16, or more ranks";
  if (phase == "gather_wait" || phase == "reduce_wait")
    return "communication is waited for: --shard zero2, --backward-prefetch pre, or a larger batch";
  return "it doesn't grow faster than the text: a larger batch spreads it over more samples";
}

}  // namespace

Json PhaseGrowth::json() const {
  Json out{{"phase", phase},
           {"method", method},
           {"exponent", growth.exponent},
           {"interval", {growth.low, growth.high}},
           {"square_share", growth.square},
           {"verdict", growth.verdict},
           {"points", Json::array()}};
  for (const auto& [length, ms] : points) out["points"].push_back({{"seq_length", length}, {"ms", ms}});
  return out;
}

Json ScanVerdict::json() const {
  Json out{{"phases", Json::array()}, {"bottleneck", bottleneck}, {"remedy", remedy}};
  for (const auto& phase : phases) out["phases"].push_back(phase.json());
  return out;
}

ScanVerdict judge(const std::vector<Json>& results) {
  std::map<std::string, std::map<std::string, std::vector<std::pair<double, double>>>> times;  // method, phase
  std::vector<std::string> methods;
  for (const auto& result : results) {
    const auto method = result.at("dp").get<std::string>();
    if (!times.contains(method)) methods.push_back(method);
    for (const auto& [phase, ms] : exclusive(result))
      times[method][phase].emplace_back(result.at("seq_length").get<double>(), ms);
  }
  SHADE_REQUIRE(!methods.empty(), "there are no results to judge");
  ScanVerdict out;
  double worst = 0;
  for (const auto& method : methods) {
    const auto& phases = times[method];
    const double longest = phases.at("step").back().second;
    for (const auto& [phase, points] : phases) {
      if (points.size() < 2 || points.back().second < 0.01 * longest) continue;
      out.phases.push_back({method, phase, fit_growth(points), points});
      const auto& growth = out.phases.back().growth;
      // Its share of a step at twice the length.
      const double next = growth.at_twice(points.back().second) / longest;
      if (phase == "step" || next <= worst) continue;
      worst = next;
      out.bottleneck = text(phase, " of ", method, ": ", growth.verdict);
      out.remedy = remedy_for(phase, growth);
    }
  }
  return out;
}

}  // namespace shade::measure
