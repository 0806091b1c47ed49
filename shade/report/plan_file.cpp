#include "shade/report/plan_file.h"

#include "shade/base/error.h"
#include "shade/base/strings.h"

namespace shade::report {
namespace {

using catalog::number_at;

std::string word_in(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

void add_row(Results& results, Json json, const Json& plan, const std::string& file) {
  try {
    const bool failed = json.contains("failed") && json["failed"] == true;
    if (!failed && !json.contains("avg_time_ms")) {
      results.foreign.push_back(
          {file, text(word_in(json, "name"), ": a plan without times; make it with --device-profile")});
      return;
    }
    if (plan.contains("environment")) json["environment"] = plan["environment"];
    auto row = row_of(json, file);
    row.planned_for = word_in(plan, "device_profile");
    if (row.planned_for.empty()) row.planned_for = "?";
    row.settings["planned_for"] = row.planned_for;
    if (json.contains("fits") && json["fits"].is_boolean()) row.fits = json["fits"].get<bool>();
    (row.failed() ? results.failures : results.rows).push_back(std::move(row));
  } catch (const std::exception& fault) {
    results.broken.push_back({file, fault.what()});
  }
}

Advice advice_of(const Json& plan, const std::string& file) {
  Advice out{.file = file, .recommended = "", .limit_mb = number_at(plan, "memory_limit_mb")};
  if (plan.contains("recommended")) out.recommended = word_in(plan["recommended"], "name");
  out.timed = plan.contains("device_profile");
  for (const auto& row : plan["rows"]) {
    if (word_in(row, "verdict") == "refused") continue;
    out.rows.push_back({.name = word_in(row, "name"),
                        .verdict = word_in(row, "verdict"),
                        .reason = word_in(row, "reason"),
                        .peak_mb = number_at(row, "peak_memory_mb"),
                        .time = number_at(row, out.timed ? "ms_per_sample" : "flops_per_sample"),
                        .cost = number_at(row, out.timed ? "device_ms_per_sample" : "sent_bytes_per_sample")});
  }
  return out;
}

}  // namespace

bool is_plan(const Json& json) {
  if (!json.is_object() || !json.contains("rows") || !json["rows"].is_array() || !json.contains("environment"))
    return false;
  return json["environment"].is_object() && word_in(json["environment"], "command").starts_with("shade plan ");
}

void add_plan(Results& results, const Json& plan, const std::string& file) {
  if (!plan.contains("memory_limit_mb")) {
    for (const auto& row : plan["rows"]) add_row(results, row, plan, file);
    return;
  }
  results.advice.push_back(advice_of(plan, file));
  if (results.advice.back().timed && plan.contains("recommended") && plan["recommended"].contains("plan"))
    add_row(results, plan["recommended"]["plan"], plan, file);
}

}  // namespace shade::report
