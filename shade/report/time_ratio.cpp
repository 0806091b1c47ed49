#include "shade/report/time_ratio.h"

#include "shade/base/error.h"
#include "shade/base/units.h"
#include "shade/report/findings.h"

namespace shade::report {

std::optional<TimeRatio> ratio_in(const Json& result) {
  if (!result.contains("ratio")) return std::nullopt;
  const auto& json = result["ratio"];
  if (!json.is_object() || !json.contains("reference") || !json["reference"].is_string())
    throw Error("'ratio.reference' is not a text");
  TimeRatio out{
      .reference = json["reference"].get<std::string>(), .value = catalog::number_at(json, "value"), .interval = {}};
  if (!(out.value > 0)) throw Error("'ratio.value' is not positive");
  if (!json.contains("interval") || json["interval"].is_null()) return out;
  const auto& interval = json["interval"];
  if (!interval.is_array() || interval.size() != 2 || !interval[0].is_number() || !interval[1].is_number())
    throw Error("'ratio.interval' is not a pair of numbers");
  out.interval = interval.get<std::pair<double, double>>();
  if (!(out.interval->first > 0) || !(out.interval->first <= out.interval->second))
    throw Error("'ratio.interval' is not two positive numbers in their order");
  return out;
}

const TimeRatio* ratio_between(const ResultRow& row, const ResultRow& reference) {
  return row.ratio && row.ratio->reference + "_result.json" == reference.file ? &*row.ratio : nullptr;
}

double time_over(const ResultRow& row, const ResultRow& reference) {
  const auto* ratio = ratio_between(row, reference);
  return ratio != nullptr ? ratio->value : row.time_ms / reference.time_ms;
}

const ResultRow* compared_with(const Results& results, const ResultRow& row) {
  if (row.failed()) return nullptr;
  if (row.is_private()) return results.without_privacy(row);
  for (const auto& other : results.rows)
    if (ratio_between(row, other) != nullptr) return &other;
  return nullptr;
}

bool is_settled(const ResultRow& row) { return row.others.value_or(0) <= kBusy && (!row.ratio || row.ratio->interval); }

bool distinguishable(const ResultRow& a, const ResultRow& b) {
  if (const auto* ratio = ratio_between(a, b)) return ratio->distinguishable();
  if (const auto* ratio = ratio_between(b, a)) return ratio->distinguishable();
  if (const auto x = a.interval_ms(), y = b.interval_ms(); x && y) return x->first > y->second || y->first > x->second;
  return a.fastest_ms > b.slowest_ms || b.fastest_ms > a.slowest_ms;
}

std::string time_cost_text(const ResultRow& row, const ResultRow& reference) {
  const auto change = [](double ratio) { return signed_percent(100 * (ratio - 1)); };
  const auto* ratio = ratio_between(row, reference);
  if (ratio == nullptr)
    return change(time_over(row, reference)) + (distinguishable(row, reference) ? "" : " (not distinguishable)");
  if (!ratio->interval) return change(ratio->value) + " (no interval)";
  return text(change(ratio->value), " (", change(ratio->interval->first), " to ", change(ratio->interval->second),
              ratio->distinguishable() ? ")" : ", not distinguishable)");
}

}  // namespace shade::report
