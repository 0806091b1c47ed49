#include "shade/cli/plan_run.h"

#include <algorithm>

#include "shade/base/strings.h"

namespace shade::cli {

void PlanRun::add_to(CLI::App& app) {
  for (auto& field : config_.fields())
    app.add_option_function<std::string>(
           join(field.spellings(), ","), [&field](const std::string& word) { field.set(word); }, field.help())
        ->group("whole run")
        ->type_name("");
}

void PlanRun::read(const PlanTime& time) {
  const auto& fields = config_.fields();
  const bool any = std::any_of(fields.begin(), fields.end(), [](const Field& field) { return field.given(); });
  SHADE_REQUIRE(!any || asked(), "a whole run is planned for a number of tokens; add --tokens");
  SHADE_REQUIRE(!asked() || time.device(), "--tokens needs the time of a step; add --device-profile");
}

plan::WholeRun PlanRun::plan(const Planned& row) const {
  SHADE_CHECK(row.time, "a row without a time");
  return plan::plan_whole_run({.tokens = options_.tokens,
                               .devices = row.ranks,
                               .step = row.time->time.step,
                               .tokens_per_step = row.record.tokens,
                               .checkpoint = row.record.checkpoint,
                               .price_per_hour = options_.price_per_hour,
                               .device_mtbf = options_.device_mtbf,
                               .bytes_per_second = options_.write_bandwidth * 1e9,
                               .restart = options_.restart_time});
}

}  // namespace shade::cli
