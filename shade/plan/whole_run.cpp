#include "shade/plan/whole_run.h"

#include <algorithm>
#include <cmath>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/terminal.h"

namespace shade::plan {
namespace {

double days_of(Seconds time) { return time.count() / 86400; }

std::string day_text(Seconds time) { return text(significant(days_of(time)), " days"); }

// "1,234,567" would be two columns for a reader of CSV: plain up to ten million.
std::string amount(double value) { return value < 1e7 ? std::to_string(std::llround(value)) : significant(value); }

std::string assumptions(const WholeRun& run) {
  const auto& question = run.question;
  const auto& fleet = published_failures();
  const auto failures = question.device_mtbf.count() > 0
                            ? text("one failure per device in ", to_string(question.device_mtbf))
                            : text("failures: ", fleet.interruptions, " interruptions in ", fleet.days, " days on ",
                                   fleet.devices, " GPUs (", fleet.name, "), the same rate per device");
  const auto storage =
      question.bytes_per_second > 0
          ? text("storage: ", significant(run.bytes_per_second / 1e9), " GB/s for all ranks")
          : text("storage: that run's ", significant(kPublishedWriteRate / 1e12), " TB/s, by the share of its devices");
  return text(failures, "; ", storage, "; the run waits for its saves; ", to_string(question.restart),
              " from a failure to the next step. The time of a step is predicted, and evaluation is not included.\n");
}

}  // namespace

void WholeRunConfig::declare(Fields& fields) {
  fields.add("tokens", tokens,
             {.help = "tokens of a whole run, for its days, failures, saves and price; needs --device-profile",
              .unit = "tokens",
              .min = 0,
              .flags = {"--tokens"}});
  fields.add("price_per_hour", price_per_hour,
             {.help = "price of one device for an hour, in any currency",
              .min = 0,
              .flags = {"--price-per-hour"},
              .needs = {{"run.tokens"}}});
  fields.add("device_mtbf", device_mtbf,
             {.help = "mean time between failures of one device, e.g. 45000h",
              .flags = {"--device-mtbf"},
              .if_not_given = "466 failures of 16384 devices in 54 days, as published for Llama 3 405B",
              .needs = {{"run.tokens"}}});
  fields.add("write_bandwidth", write_bandwidth,
             {.help = "rate at which all ranks together write a checkpoint",
              .unit = "GB/s",
              .min = 0,
              .flags = {"--write-bandwidth"},
              .if_not_given = "2000 GB/s for 16384 devices, as published for Llama 3 405B, and as much less for fewer",
              .needs = {{"run.tokens"}}});
  fields.add("restart_time", restart_time,
             {.help = "time from a failure to the next step", .flags = {"--restart-time"}, .needs = {{"run.tokens"}}});
}

void WholeRunQuestion::require_valid() const {
  SHADE_REQUIRE(tokens > 0 && std::isfinite(tokens), "number of tokens ", tokens, " is out of range; expected above 0");
  SHADE_REQUIRE(step.count() > 0 && tokens_per_step > 0, "a step of ", tokens_per_step, " tokens in ", step.count(),
                " s; expected more than none");
  SHADE_REQUIRE(tokens / static_cast<double>(tokens_per_step) < 1e15, "number of tokens ", tokens,
                " is out of range; expected fewer than 1e15 steps");
}

WholeRun plan_whole_run(const WholeRunQuestion& question) {
  question.require_valid();
  WholeRun out{.question = question};
  out.steps = static_cast<int64_t>(std::ceil(question.tokens / static_cast<double>(question.tokens_per_step)));
  out.training = question.step * static_cast<double>(out.steps);
  const auto& fleet = published_failures();
  out.bytes_per_second = question.bytes_per_second > 0 ? question.bytes_per_second
                                                       : kPublishedWriteRate * question.devices / fleet.devices;
  out.save = Seconds(static_cast<double>(question.checkpoint.count) / out.bytes_per_second);
  const auto between =
      question.device_mtbf.count() > 0 ? question.device_mtbf / question.devices : fleet.between(question.devices);
  out.checkpoints = plan_checkpoints(between, out.save, question.restart);
  SHADE_REQUIRE(out.checkpoints.goodput > 0, "a run that fails every ", to_string(between), ", saves in ",
                to_string(out.save), " and restarts in ", to_string(question.restart),
                " gets nowhere; expected a faster storage or restart, or fewer devices");
  out.save_every = std::max<int64_t>(1, std::llround(out.checkpoints.interval / question.step));
  out.elapsed = out.training / out.checkpoints.goodput;
  out.failures = out.elapsed / between;
  out.repeated_steps = static_cast<double>(out.steps) * out.checkpoints.repeated / out.checkpoints.goodput;
  out.device_hours = out.elapsed.count() / 3600 * question.devices;
  out.price = out.device_hours * question.price_per_hour;
  return out;
}

std::string table_of(const std::vector<std::pair<std::string, WholeRun>>& runs) {
  if (runs.empty()) return "";
  const auto& first = runs.front().second;
  const bool priced = first.question.price_per_hour > 0;
  std::vector<std::string> header{"experiment", "steps",    "training", "checkpoint", "save",
                                  "save every", "failures", "goodput",  "elapsed",    "device-hours"};
  if (priced) header.emplace_back("price");
  Table table(header);
  for (const auto& [name, run] : runs) {
    std::vector<std::string> cells{
        name,
        std::to_string(run.steps),
        day_text(run.training),
        to_string(run.question.checkpoint),
        to_string(run.save),
        text(to_string(run.checkpoints.interval), " (", run.save_every, run.save_every == 1 ? " step)" : " steps)"),
        text(significant(run.failures), ", every ", to_string(run.checkpoints.between_failures)),
        text(significant(100 * run.checkpoints.goodput), " %"),
        day_text(run.elapsed),
        amount(run.device_hours)};
    if (priced) cells.push_back(amount(run.price));
    table.add(std::move(cells));
  }
  return text("whole run of ", significant(first.question.tokens), " tokens\n", table.str(), assumptions(first));
}

Json WholeRun::json() const {
  Json out{
      {"tokens", question.tokens},
      {"steps", steps},
      {"training_days", days_of(training)},
      {"checkpoint_bytes", question.checkpoint.count},
      {"write_bytes_per_second", bytes_per_second},
      {"save_s", save.count()},
      {"save_interval_s", checkpoints.interval.count()},
      {"save_every_steps", save_every},
      {"between_failures_s", checkpoints.between_failures.count()},
      {"failures", failures},
      {"repeated_steps", repeated_steps},
      {"goodput", checkpoints.goodput},
      {"lost",
       {{"saving", checkpoints.saving}, {"repeated", checkpoints.repeated}, {"restarting", checkpoints.restarting}}},
      {"days", days_of(elapsed)},
      {"device_hours", device_hours}};
  if (question.price_per_hour > 0) out["price"] = price;
  return out;
}

Seconds FailureProfile::between(int devices_used) const {
  SHADE_REQUIRE(devices_used >= 1, "number of devices ", devices_used, " is out of range; expected at least 1");
  return Seconds(days * 86400 / interruptions * devices / devices_used);
}

const FailureProfile& published_failures() {
  static constexpr FailureProfile kProfile{.name = "llama3-405b",
                                           .source = "The Llama 3 Herd of Models: 419 unexpected and 47 planned",
                                           .interruptions = 466,
                                           .days = 54,
                                           .devices = 16384};
  return kProfile;
}

CheckpointPlan plan_checkpoints(Seconds between_failures, Seconds save, Seconds restart) {
  SHADE_REQUIRE(between_failures.count() > 0 && save.count() >= 0 && restart.count() >= 0,
                "time between failures, to save and to restart: expected above 0, 0 or more, and 0 or more; found ",
                between_failures.count(), ", ", save.count(), " and ", restart.count(), " s");
  const double mean = between_failures.count(), cost = save.count();
  // Daly's form; where saving takes longer than half the time between failures there is nothing better than that time.
  const double best = cost < mean / 2 ? std::max(std::sqrt(2 * cost * mean) - cost, 0.0) : mean;
  CheckpointPlan out{.interval = Seconds(best), .between_failures = between_failures};
  const double period = best + cost;
  // Shares of a wall clock on which failures come at a rate of 1 / mean: half a period is repeated for each, and a
  // save that is under way is lost with it.
  out.restarting = std::min(1.0, restart.count() / mean);
  out.repeated = std::min(1 - out.restarting, period / 2 / mean);
  const double left = 1 - out.restarting - out.repeated;
  out.saving = period > 0 ? left * cost / period : 0;
  out.goodput = left - out.saving;
  return out;
}

}  // namespace shade::plan
