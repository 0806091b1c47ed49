#include "shade/proof/audit_training.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "shade/accounting/prv.h"
#include "shade/base/error.h"
#include "shade/proof/observed_training.h"
#include "shade/train/budget/identity.h"

namespace shade::proof {
namespace {

constexpr int64_t kSimulated = 20000;  // trainings of each world
constexpr int kThresholds = 60;
constexpr uint64_t kSimulationSeed = 20231;
constexpr double kMiddle = 0.5;  // between a canary that was not drawn and one that was

// Trainings as the accountant sees them, with a canary of this many clip norms.
std::vector<Observations> simulated(const privacy::Steps& steps, double sigma, double canary, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(0, sigma);
  std::bernoulli_distribution drawn(steps.mechanism.sample_rate);
  std::vector<Observations> out(kSimulated);
  for (auto& training : out)
    for (int64_t t = 0; t < steps.count; ++t) training.all.push_back((drawn(random) ? canary : 0) + noise(random));
  return out;
}

int64_t above(const std::vector<double>& sorted, double threshold) {
  return sorted.end() - std::upper_bound(sorted.begin(), sorted.end(), threshold);
}

}  // namespace

double ObserversRules::likelihood(const Observations& seen) const {
  const double q = claimed_.mechanism.sample_rate, sigma = claimed_.mechanism.noise_multiplier;
  double sum = 0;
  for (const auto s : seen.all) {
    const double ratio = (2 * s - 1) / (2 * sigma * sigma);
    // 1 - q + q e^ratio, where e^ratio may be too large for a number
    sum += ratio > 0 ? ratio + std::log(q + (1 - q) * std::exp(-ratio)) : std::log(1 - q + q * std::exp(ratio));
  }
  return sum;
}

bool ObserversRules::by_spread(const Observations& seen) {
  const auto [low, high] = std::minmax_element(seen.all.begin(), seen.all.end());
  return *high - *low > kMiddle;
}

bool ObserversRules::by_last_rank(const Observations& seen) {
  return std::any_of(seen.last_rank.begin(), seen.last_rank.end(), [](double drawn) { return drawn > kMiddle; });
}

ObserversRules::ObserversRules(const privacy::Steps& claimed, const ClaimedCurve& curve, int64_t trainings,
                               double confidence)
    : claimed_(claimed), trainings_(trainings), confidence_(confidence), without_(half_noise_scores(0)) {
  const auto with = half_noise_scores(kLongestCanary);
  double best = -INFINITY;
  for (int i = 1; i < kThresholds; ++i) {
    const auto& from = i % 2 == 0 ? without_ : with;
    const double threshold = from[from.size() * static_cast<size_t>(i) / kThresholds];
    if (const double excess = curve.excess(rates_at(threshold, with)); excess > best) {
      best = excess;
      threshold_ = threshold;
    }
  }
}

std::vector<double> ObserversRules::half_noise_scores(double canary) const {
  std::vector<double> out;
  for (const auto& training :
       simulated(claimed_, claimed_.mechanism.noise_multiplier / 2, canary, kSimulationSeed + (canary > 0 ? 1 : 0)))
    out.push_back(likelihood(training));
  std::sort(out.begin(), out.end());
  return out;
}

ErrorRates ObserversRules::rates_at(double threshold, const std::vector<double>& with) const {
  // Rates of the simulation are themselves uncertain: by three deviations of a binomial, and a little more near 0.
  const auto rate = [](int64_t count) {
    const double n = kSimulated, p = static_cast<double>(count) / n;
    return std::min(1.0, p + 3.1 * std::sqrt(p * (1 - p) / n) + 7 / n);
  };
  const auto alarms = most_errors(trainings_, rate(above(without_, threshold)));
  const auto misses = most_errors(trainings_, rate(kSimulated - above(with, threshold)));
  return upper_rates(alarms, misses, trainings_, confidence_);
}

void judge(TrainingAuditResult& result, const privacy::Steps& claimed, const std::vector<Observations>& without,
           const std::vector<Observations>& with) {
  SHADE_CHECK(without.size() == with.size(), "as many trainings in both worlds");
  const auto trainings = std::ssize(with);
  const bool ranks = !with.empty() && !with.front().last_rank.empty();
  const double each = 1 - (1 - result.confidence) / (ranks ? 3 : 2);  // all rules hold together
  const ClaimedCurve curve(claimed);
  const ObserversRules rules(claimed, curve, trainings, each);
  const auto counted = [&](const char* name, const auto& says_with) {
    TrainingAuditResult::Rule out{.name = name,
                                  .false_alarms = std::count_if(without.begin(), without.end(), says_with),
                                  .misses = trainings - std::count_if(with.begin(), with.end(), says_with)};
    out.rates = upper_rates(out.false_alarms, out.misses, trainings, each);
    return out;
  };
  result.rules = {counted("likelihood", [&](const Observations& seen) { return rules.by_likelihood(seen); }),
                  counted("spread", &ObserversRules::by_spread)};
  if (ranks) result.rules.push_back(counted("last_rank", &ObserversRules::by_last_rank));
  // The rule that refutes the claim best; if none does, the one that shows the largest epsilon.
  result.half_visible = curve.excess(rules.visible(std::min(kLongestCanary, result.shortest))) > 0;
  const auto best = [&](const auto& worth) {
    return *std::max_element(result.rules.begin(), result.rules.end(),
                             [&](const auto& a, const auto& b) { return worth(a.rates) < worth(b.rates); });
  };
  const auto refutes = best([&](const ErrorRates& rates) { return curve.excess(rates); });
  result.excluded = curve.excess(refutes.rates) > 0;
  const auto shows = best([&](const ErrorRates& rates) { return epsilon_by_definition(rates, result.delta); });
  result.found_by = result.excluded ? refutes.name : shows.name;
  result.definition_epsilon = epsilon_by_definition(shows.rates, result.delta);
  result.claimed_epsilon = privacy::prv_epsilon({&claimed, 1}, result.delta);
}

void state_bounds(TrainingAuditResult& result, const privacy::Steps& claimed) {
  for (const auto& rule : result.rules)
    if (rule.name == result.found_by) result.lower_epsilon = epsilon_by_curve(claimed, result.delta, rule.rates);
}

Verdict TrainingAuditResult::verdict() const {
  if (longest > kLongestCanary || excluded || definition_epsilon > claimed_epsilon) return Verdict::wrong;
  return shortest >= kShortestCanary && half_visible ? Verdict::stands : Verdict::nothing;
}

std::string TrainingAuditResult::why() const {
  if (excluded || definition_epsilon > claimed_epsilon)
    return text(
        "the observer tells trainings with the canary from those without it better than the claim allows, by "
        "the ",
        found_by, " of what he sees");
  if (longest > kLongestCanary)
    return text("one ", unit, " moved a sum by ", significant(longest, longest < 1.01 ? 8 : 4), " clip norms");
  if (shortest < kShortestCanary)
    return text("a canary of ", significant(shortest, 4), " clip norms in some step; one of less than ",
                kShortestCanary, " hides faults; lower --max-grad-norm");
  if (!half_visible)
    return text("if the noise were half as large, ", trainings,
                " trainings of each world might not show it; raise --trainings, or choose more --steps with a larger "
                "--sigma");
  return {};
}

std::vector<std::string> TrainingAuditResult::assumes() const {
  return {text("the ", 2 * trainings,
               " trainings are independent, and the observer's rules were fixed before them, for a canary of one "
               "clip norm"),
          "whether half the noise would have been found is computed with the shortest canary observed",
          "the observer sees the weights after every step of plain SGD, from which any other optimizer's could be "
          "computed, and knows the other records and which of them were drawn",
          "lower_epsilon is that of Gaussian noise of unknown size at the claimed sampling rate and steps; "
          "definition_epsilon and the verdict assume no mechanism",
          text("the records are synthetic, the canary is one ", unit)};
}

Json TrainingAuditResult::json() const {
  auto found = Json::array();
  for (const auto& rule : rules)
    found.push_back({{"rule", rule.name},
                     {"false_alarms", rule.false_alarms},
                     {"misses", rule.misses},
                     {"false_alarm_rate_at_most", rule.rates.false_alarms},
                     {"miss_rate_at_most", rule.rates.misses}});
  return {{"kind", to_string(AuditKind::training)},
          {"trainings", trainings},
          {"steps", steps},
          {"sample_rate", sample_rate},
          {"sigma", sigma},
          {"delta", delta},
          {"confidence", confidence},
          {"privacy_unit", unit},
          {"canary_in_clip_norms", longest},
          {"shortest_canary_in_clip_norms", shortest},
          {"rules", found},
          {"found_by", found_by},
          {"claimed_epsilon", claimed_epsilon},
          {"lower_epsilon", lower_epsilon},
          {"definition_epsilon", definition_epsilon},
          {"excluded_by_the_claim", excluded},
          {"half_noise_visible", half_visible},
          {"assumes", assumes()},
          {"verdict", to_string(verdict())},
          {"why", why()},
          {"pass", pass()}};
}

TrainingAuditResult audit_training(comm::World& world, const Audit& what) {
  require_auditable(what, world.size());
  const auto& config = what.audit;
  const AuditedEvent event(what, what.work.batch_size + 1);
  const auto groups = shard::connect_groups(world, shard::policy_of(what.shard, world.size()), "audit ");
  const int64_t canary = what.work.batch_size;  // the unit after all others
  Observer observer(world, what, event, groups, config.micro_batch);
  SHADE_REQUIRE(what.work.batch_size > 0, "trainings without the canary need other records; raise --batch-size");
  // Of both worlds, all trainings and steps: along the canary, and its squared length; and both of the last rank.
  const auto seen = at::zeros({2, config.trainings, what.work.steps, 4}, at::kDouble);
  const bool last = world.rank() + 1 == world.size();
  for (int64_t with = 0; with < 2; ++with)
    for (int64_t training = 0; training < config.trainings; ++training) {
      std::vector<int64_t> units;
      for (int64_t unit = 0; unit < what.work.batch_size + with; ++unit) units.push_back(unit);
      const auto seed = what.dp.seed();
      const auto key = train::agreed_key(
          groups.control, seed ? std::optional(*seed + static_cast<uint64_t>(2 * training + with) * 0x9e3779b97f4a7c15u)
                               : std::nullopt);
      ObservedTraining observed(world, what, event, groups, std::move(units), key);
      for (int64_t t = 0; t < what.work.steps; ++t) {
        observer.look_at(observed.weights());
        auto others = observed.drawn();
        std::erase(others, canary);
        const auto added = observer.sum(event.samples_of(canary)), expected = observer.sum(others);
        auto released = observed.step();
        for (size_t i = 0; i < released.size(); ++i) released[i].sub_(expected[i]);
        const double along = dot(released, added), square = dot(added, added);
        seen[with][training][t] = at::tensor({along, square, last ? along : 0.0, last ? square : 0.0}, at::kDouble);
      }
    }
  const auto all = over_ranks(seen, groups);
  const auto length = all.select(3, 1).sqrt(), along = all.select(3, 0) / length / event.claimed.clip_norm;
  const auto of_last = all.select(3, 2) / all.select(3, 3);
  TrainingAuditResult out{.trainings = config.trainings,
                          .steps = what.work.steps,
                          .sample_rate = what.budget.sample_rate,
                          .sigma = what.dp.sigma,
                          .delta = what.budget.delta,
                          .confidence = config.confidence,
                          .shortest = length.min().item<double>() / event.claimed.clip_norm,
                          .longest = length.max().item<double>() / event.claimed.clip_norm,
                          .unit = to_string(event.claimed.unit)};
  const auto numbers = [](const at::Tensor& row) {
    const auto whole = row.contiguous();
    return std::vector<double>(whole.data_ptr<double>(), whole.data_ptr<double>() + whole.numel());
  };
  std::vector<Observations> worlds[2];
  for (int64_t with = 0; with < 2; ++with)
    for (int64_t training = 0; training < config.trainings; ++training)
      worlds[with].push_back(
          {.all = numbers(along[with][training]),
           .last_rank = world.size() > 1 ? numbers(of_last[with][training]) : std::vector<double>{}});
  judge(out, event.claimed.accounted(), worlds[0], worlds[1]);
  state_bounds(out, event.claimed.accounted());
  return out;
}

}  // namespace shade::proof
