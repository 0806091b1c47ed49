#include "shade/train/budget/budget.h"

#include <algorithm>

#include "shade/accounting/calibrate.h"
#include "shade/base/error.h"
#include "shade/base/log.h"
#include "shade/privacy/mechanism_version.h"

namespace shade::train {

using privacy::PrivacyEvent;
using privacy::Sampler;

privacy::PrivacyUnit unit_of(const RunSpec& run) {
  return run.dp.is_private() ? run.budget.privacy_unit : privacy::PrivacyUnit::record;
}

std::string unit_by_of(const RunSpec& run) {
  const auto lines = run.data.text_unit == data::TextUnit::file ? "" : to_string(run.data.text_unit);
  switch (unit_of(run)) {
    case privacy::PrivacyUnit::record: return lines;
    case privacy::PrivacyUnit::window:
      return text(run.work.seq_length, " tokens", lines.empty() ? "" : text(", ", lines));
    case privacy::PrivacyUnit::user: return run.data.fields.user;
  }
  return {};
}

PrivacyEvent event_of(const RunSpec& run, int64_t units) {
  const auto& [budget, work] = std::tie(run.budget, run.work);
  PrivacyEvent event{.mechanism = {.sampler = budget.sampler, .sample_rate = budget.sample_rate},
                     .clip_norm = run.dp.max_grad_norm,
                     .divisor = static_cast<double>(work.batch_size),
                     .unit = unit_of(run),
                     .steps = work.steps,
                     .delta = budget.delta};
  event.unit_by = unit_by_of(run);
  auto& mechanism = event.mechanism;
  if (mechanism.sample_rate == 0)
    mechanism.sample_rate = std::min(1.0, static_cast<double>(work.batch_size) / static_cast<double>(units));
  mechanism.noise_multiplier = run.dp.sigma;
  mechanism.max_batch = budget.max_batch;
  mechanism.population = budget.population;
  if (budget.sampler == Sampler::truncated_poisson) {
    if (mechanism.population == 0) mechanism.population = units + 1;
    SHADE_REQUIRE(mechanism.population >= units, "population ", mechanism.population, " is less than the ", units, " ",
                  to_string(event.unit), "s of the data; expected a bound on their number");
  }
  if (budget.target_epsilon > 0 && work.steps > 0)
    mechanism.noise_multiplier =
        privacy::calibrate(budget.accountant, event.accounted(), budget.target_epsilon, budget.delta).sigma;
  if (run.dp.is_private() && no_epsilon(run).empty()) event.require_valid();
  return event;
}

void warn_of_delta(const RunSpec& run, const PrivacyEvent& event, int64_t units) {
  if (!run.dp.is_private() || !no_epsilon(run).empty() || event.delta * static_cast<double>(units) < 1) return;
  log::warning("delta ", event.delta, " is not below 1 / ", units, " ", to_string(event.unit),
               "s: it would allow revealing one whole ", to_string(event.unit));
}

std::unique_ptr<data::Sampler> make_sampler(const PrivacyEvent& event, int64_t units, int64_t batch_size,
                                            const privacy::NoiseKey& key) {
  const auto own = privacy::derived_key(key, "shade sampler");
  const auto& mechanism = event.mechanism;
  if (mechanism.sampler == Sampler::shuffled)
    return data::make_shuffled(own.bytes(), {.records = units, .batch = batch_size, .unit = to_string(event.unit)});
  return data::make_poisson(own.bytes(),
                            {.records = units,
                             .rate = mechanism.sample_rate,
                             .max_batch = mechanism.sampler == Sampler::truncated_poisson ? mechanism.max_batch : 0,
                             .unit = to_string(event.unit)});
}

std::string no_epsilon(const RunSpec& run) {
  if (!run.dp.is_private()) return "not private";
  if (run.budget.sampler == Sampler::shuffled) return "batches are shuffled, which no accountant supports";
  if (run.dp.sigma == 0 && run.budget.target_epsilon == 0) return "no noise is added";
  return {};
}

Json event_json(const PrivacyEvent& event, bool seeded, bool accounted) {
  // How many steps, and for which delta, doesn't change a step; there is one kind of neighbours.
  const auto& [mechanism, clip_norm, divisor, neighbours, unit, steps, delta, unit_by] = event;
  const auto& [sampler, sample_rate, noise_multiplier, max_batch, population] = mechanism;
  Json out{{"sampler", to_string(sampler)},
           {"sample_rate", sample_rate},
           {"sigma", noise_multiplier},
           {"max_batch", max_batch},
           {"population", population},
           {"clip_norm", clip_norm},
           {"divisor", divisor},
           {"unit", to_string(unit)},
           {"seeded", seeded},
           {"mechanism_version", privacy::kMechanismVersion}};  // absent up to 0.2
  if (!unit_by.empty()) out["unit_by"] = unit_by;
  if (!accounted) out["accounted"] = false;  // absent in ledgers of earlier versions
  return out;
}

std::optional<privacy::Mechanism> mechanism_in(const Json& event) {
  if (!event.value("accounted", true)) return std::nullopt;
  privacy::Mechanism out{.sampler = parse_name<Sampler>(event.at("sampler").get<std::string>()),
                         .sample_rate = event.at("sample_rate"),
                         .noise_multiplier = event.at("sigma"),
                         .max_batch = event.at("max_batch"),
                         .population = event.at("population")};
  if (out.sampler == Sampler::shuffled || out.noise_multiplier < privacy::kMinNoise) return std::nullopt;
  return out;
}

Earlier earlier_steps(std::span<const checkpoint::Spent> ledger, const PrivacyEvent& event, bool seeded) {
  Earlier out;
  const auto refuse = [&](const auto&... why) {  // the first reason is the one that is told
    if (out.no_epsilon.empty()) out.no_epsilon = text("the ledger has earlier steps ", why...);
  };
  for (const auto& [words, steps] : ledger) {
    out.count += steps;
    if (words.value("seeded", false) && !seeded) refuse("whose noise had a seed");
    auto unit = words.value("unit", "unit that they don't state");
    auto mine = to_string(event.unit);
    const auto by = words.value("unit_by", "");
    if (unit == mine && by != event.unit_by) {
      if (!by.empty()) unit += text(" by '", by, "'");
      if (!event.unit_by.empty()) mine += text(" by '", event.unit_by, "'");
    }
    const bool other = unit != mine;
    if (other) refuse("that protect one ", unit, ", not one ", mine);
    const auto mechanism = mechanism_in(words);
    if (mechanism && !words.value("seeded", false)) {
      out.protected_steps += steps;
      if (other) out.other_unit = text("they protect one ", mine, ", those one ", unit);
    }
    if (mechanism)
      out.steps.push_back({*mechanism, steps});
    else
      refuse("that no accountant supports");
  }
  return out;
}

Budget::Budget(PrivacyEvent event, const BudgetConfig& config, std::vector<privacy::Steps> spent, int64_t made)
    : event_(std::move(event)),
      accountant_(config.accountant),
      spent_(std::move(spent)),
      made_(made),
      allowed_(std::max(made, event_.steps)) {
  if (config.max_epsilon == 0 || after(allowed_).epsilon <= config.max_epsilon) {
    allowed_ = event_.steps;
    return;
  }
  // Epsilon grows with the steps, and making a step again costs nothing: between these two the budget ends.
  int64_t kept = made_, over = allowed_;
  while (over - kept > 1) {
    const auto middle = kept + (over - kept) / 2;
    (after(middle).epsilon <= config.max_epsilon ? kept : over) = middle;
  }
  allowed_ = std::min(kept, event_.steps);
}

privacy::Spent Budget::after(int64_t step) const {
  auto all = spent_;
  all.push_back({event_.mechanism, std::max<int64_t>(0, step - made_)});
  return privacy::spent(accountant_, all, event_.delta);
}

}  // namespace shade::train
