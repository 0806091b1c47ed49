#include "shade/train/budget.h"

#include <sodium.h>

#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/log.h"
#include "shade/privacy/accounting/calibrate.h"

namespace shade::train {

using privacy::PrivacyEvent;
using privacy::Sampler;

PrivacyEvent event_of(const Recipe& recipe, int64_t records) {
  const auto& [budget, train] = std::tie(recipe.budget, recipe.train);
  PrivacyEvent event{.mechanism = {.sampler = budget.sampler, .sample_rate = budget.sample_rate},
                     .clip_norm = recipe.dp.max_grad_norm,
                     .divisor = static_cast<double>(train.batch_size),
                     .steps = train.steps,
                     .delta = budget.delta};
  auto& mechanism = event.mechanism;
  if (mechanism.sample_rate == 0)
    mechanism.sample_rate = std::min(1.0, static_cast<double>(train.batch_size) / static_cast<double>(records));
  mechanism.noise_multiplier = recipe.dp.sigma;
  mechanism.max_batch = budget.max_batch;
  mechanism.population = budget.population;
  if (budget.sampler == Sampler::truncated_poisson) {
    if (mechanism.population == 0) mechanism.population = records + 1;
    SHADE_REQUIRE(mechanism.population >= records, "population ", mechanism.population, " is less than the ", records,
                  " records of the data; expected a bound on their number");
  }
  if (budget.target_epsilon > 0)
    mechanism.noise_multiplier =
        privacy::calibrate(budget.accountant, event.accounted(), budget.target_epsilon, budget.delta).sigma;
  if (recipe.dp.is_private() && no_epsilon(recipe).empty()) {
    event.require_valid();
    if (budget.delta * static_cast<double>(records) >= 1)
      log::warning("delta ", budget.delta, " is not below 1 / ", records,
                   " records: giving away one whole record would be allowed by it");
  }
  return event;
}

std::unique_ptr<data::Sampler> make_sampler(const PrivacyEvent& event, int64_t records, int64_t batch_size,
                                            const privacy::NoiseKey& key, uint64_t incarnation) {
  data::SampleKey own;  // BLAKE2b has a place for what a key is for: nothing else under this key has these bits
  uint8_t salt[crypto_generichash_blake2b_SALTBYTES] = {};
  for (int i = 0; i < 8; ++i) salt[i] = static_cast<uint8_t>(incarnation >> (8 * i));
  constexpr uint8_t kPurpose[crypto_generichash_blake2b_PERSONALBYTES + 1] = "shade sampler   ";
  crypto_generichash_blake2b_salt_personal(own.data(), own.size(), nullptr, 0, key.data(), key.size(), salt, kPurpose);
  const auto& mechanism = event.mechanism;
  if (mechanism.sampler == Sampler::shuffled)
    return data::make_shuffled(own, {.records = records, .batch = batch_size});
  return data::make_poisson(
      own, {.records = records, .rate = mechanism.sample_rate, .max_batch = mechanism.max_batch});
}

std::string no_epsilon(const Recipe& recipe) {
  if (!recipe.dp.is_private()) return "not private";
  if (recipe.budget.sampler == Sampler::shuffled) return "batches are shuffled, which no accountant answers for";
  if (recipe.dp.sigma == 0 && recipe.budget.target_epsilon == 0) return "no noise is added";
  return {};
}

Budget::Budget(PrivacyEvent event, const BudgetConfig& config, std::vector<privacy::Steps> earlier)
    : event_(std::move(event)), accountant_(config.accountant), earlier_(std::move(earlier)), allowed_(event_.steps) {
  if (config.max_epsilon == 0 || after(allowed_).epsilon <= config.max_epsilon) return;
  int64_t kept = 0, spent = allowed_;  // epsilon grows with the steps: between these two the budget ends
  if (after(0).epsilon > config.max_epsilon) spent = 0;
  while (spent - kept > 1) {
    const auto middle = kept + (spent - kept) / 2;
    (after(middle).epsilon <= config.max_epsilon ? kept : spent) = middle;
  }
  allowed_ = kept;
}

privacy::Spent Budget::after(int64_t steps) const {
  auto all = earlier_;
  all.push_back({event_.mechanism, steps});
  return privacy::spent(accountant_, all, event_.delta);
}

}  // namespace shade::train
