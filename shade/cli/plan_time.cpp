#include "shade/cli/plan_time.h"

#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/terminal.h"
#include "shade/base/visible_text.h"

namespace shade::cli {

void PlanTime::add_to(CLI::App& app) {
  std::vector<std::string> names;
  for (const auto& profile : plan::known_profiles()) names.push_back(profile.name);
  app.add_option("--device-profile", profile_,
                 text("device that times are predicted for: ", join(names, ", "),
                      ", or a JSON file as shade calibrate writes it [none: no times]"))
      ->type_name("NAME");
  app.add_option("--straggler-spread", options_.straggler_spread,
                 "relative standard deviation of the ranks' computing times; steps wait for the slowest [0]")
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 10.0));
}

void PlanTime::read() {
  if (!profile_.empty()) device_ = plan::device_profile(profile_);
  SHADE_REQUIRE(device_ || options_.straggler_spread == 0,
                "--straggler-spread needs a device to predict times for; add --device-profile");
}

std::optional<Bytes> PlanTime::accelerator() const {
  return device_ && device_->asynchronous ? std::optional(device_->memory) : std::nullopt;
}

PlanTime::Row PlanTime::predict(const std::string& name, const plan::StepRecord& record) const {
  SHADE_CHECK(device_, "no device was named");
  Row out{.name = name, .time = plan::predict_time(record, *device_, options_)};
  const double seconds = out.time.step.count();
  if (seconds > 0) out.tokens_per_second = static_cast<double>(record.tokens) / seconds;
  if (seconds > 0 && device_->bf16_spec > 0) out.mfu = record.model_flops / seconds / device_->bf16_spec;
  out.fits = device_->memory.count == 0 || std::max(record.peak.total, record.reserved) <= device_->memory;
  return out;
}

Json PlanTime::Row::json() const {
  auto out = time.json();
  out["tokens_per_second"] = tokens_per_second;
  if (mfu > 0) out["mfu"] = mfu;
  out["fits"] = fits;
  return out;
}

std::string PlanTime::table(const std::vector<Row>& rows) const {
  const bool spec = device_->bf16_spec > 0;
  std::vector<std::string> header{"experiment", "time per step",     "tokens/s",
                                  "computing",  "waiting for ranks", "waiting for the host"};
  if (spec) header.emplace_back("MFU (bf16)");
  header.emplace_back("memory");
  Table out(header);
  for (const auto& row : rows) {
    std::vector<std::string> cells{row.name,
                                   to_string(row.time.step),
                                   significant(row.tokens_per_second),
                                   to_string(row.time.compute),
                                   to_string(row.time.exposed),
                                   to_string(row.time.idle)};
    if (spec) cells.push_back(significant(100 * row.mfu) + " %");
    cells.emplace_back(row.fits ? "fits" : "does not fit");
    out.add(std::move(cells));
  }
  return text("predicted on ", visible(device_->name, 60), " (", visible(device_->device, 60), ", ",
              visible(device_->source, 120), ")\n", out.str());
}

}  // namespace shade::cli
