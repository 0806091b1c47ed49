#include "shade/proof/audit_canaries.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "shade/accounting/prv.h"
#include "shade/base/error.h"
#include "shade/data/keyed_bits.h"
#include "shade/proof/observed_training.h"
#include "shade/train/budget/identity.h"

namespace shade::proof {
namespace {

std::vector<bool> coins(const privacy::NoiseKey& key, int64_t canaries) {
  const auto own = privacy::derived_key(key, "shade canaries");
  data::KeyedBits bits(own.bytes(), data::KeyedBits::Purpose::poisson, 0);
  std::vector<bool> out;
  for (int64_t i = 0; i < canaries; ++i) out.push_back(bits.below(2) == 1);
  return out;
}

// What a training shows of its canaries, summed over steps and this rank's shards: products of the canaries' gradients
// with each other, and with what the other records don't explain. In clip norms.
struct Products {
  at::Tensor gram_MM, along_M;

  explicit Products(int64_t canaries)
      : gram_MM(at::zeros({canaries, canaries}, at::kDouble)), along_M(at::zeros({canaries}, at::kDouble)) {}

  void add(const std::vector<Parts>& gradients, const Parts& released, double clip_norm) {
    for (size_t shard = 0; shard < released.size(); ++shard) {
      std::vector<at::Tensor> rows;
      for (const auto& gradient : gradients) rows.push_back(gradient[shard]);
      const auto u_MP = at::stack(rows).to(at::kDouble) / clip_norm;
      gram_MM += at::matmul(u_MP, u_MP.t());
      along_M += at::mv(u_MP, released[shard].to(at::kDouble)) / clip_norm;
    }
  }

  // released = q sum_c a_c u_c + sigma N(0, 1), a_c = 0 or 1 with variance 1/4: the best linear estimate of a_c - 1/2.
  std::vector<double> scores(double rate, double sigma) const {
    const auto m = along_M.numel();
    const auto centred_M = along_M - at::mv(gram_MM, at::full({m}, rate / 2, at::kDouble));
    const auto precision_MM = gram_MM * (rate * rate) + at::eye(m, at::kDouble) * (4 * sigma * sigma);
    const auto out = at::linalg_solve(precision_MM, centred_M * rate).contiguous();
    return {out.data_ptr<double>(), out.data_ptr<double>() + m};
  }
};

}  // namespace

Verdict CanaryAuditResult::verdict() const {
  if (bound.epsilon > claimed_epsilon) return Verdict::wrong;
  return bound.largest > claimed_epsilon ? Verdict::not_refuted : Verdict::nothing;
}

std::string CanaryAuditResult::why() const {
  const auto most = significant(bound.largest, 4);
  switch (verdict()) {
    case Verdict::wrong: return "more guesses are right than the claim allows";
    case Verdict::nothing:
      return text("even if all guesses were right, ", canaries, " canaries would show an epsilon of only ", most,
                  ", which the claim allows; raise --canaries");
    default:
      return text(canaries, " canaries of one training show at most ", most,
                  " and, of Gaussian noise, much less than what is spent: only large faults are found");
  }
}

std::vector<std::string> CanaryAuditResult::assumes() const {
  std::vector<std::string> out{
      "each canary was included or left out by a fair coin of its own, which nothing but its inclusion depends on",
      text(
          "four numbers of guesses were fixed before (all canaries, and a third, a tenth and a thirtieth of them), and "
          "the bound holds for all of them together")};
  if (kind == AuditKind::one_run)
    out.emplace_back(
        "the observer sees the weights after every step of plain SGD, and knows the other records and which of them "
        "were drawn; the records are synthetic");
  else
    out.emplace_back("only the losses of the canaries are seen: faults that don't change them are not found");
  out.push_back(text("a canary is one ", unit, "; nothing is assumed of the mechanism"));
  return out;
}

Json CanaryAuditResult::json() const {
  Json out{{"kind", to_string(kind)},
           {"canaries", canaries},
           {"included", included},
           {"guesses", bound.guesses.made},
           {"right", bound.guesses.right},
           {"delta", delta},
           {"confidence", confidence},
           {"privacy_unit", unit},
           {"claimed_epsilon", claimed_epsilon},
           {"lower_epsilon", bound.epsilon},
           {"largest_epsilon", bound.largest},
           {"assumes", assumes()},
           {"verdict", to_string(verdict())},
           {"why", why()},
           {"pass", pass()}};
  if (steps > 0) out.update({{"steps", steps}, {"sample_rate", sample_rate}, {"sigma", sigma}});
  return out;
}

CanaryAuditResult audit_canaries(comm::World& world, const Audit& what) {
  require_auditable(what, world.size());
  const auto& config = what.audit;
  const bool black_box = config.kind == AuditKind::model;
  const AuditedEvent event(what, what.work.batch_size + config.canaries / 2);
  const auto groups = shard::connect_groups(world, shard::policy_of(what.shard, world.size()), "audit ");
  const auto key = train::agreed_key(groups.control, what.dp.seed());
  const auto included = coins(key, config.canaries);
  std::vector<int64_t> units, canaries;
  for (int64_t unit = 0; unit < what.work.batch_size; ++unit) units.push_back(unit);
  for (int64_t i = 0; i < config.canaries; ++i) {
    canaries.push_back(what.work.batch_size + i);
    if (included[static_cast<size_t>(i)]) units.push_back(canaries.back());
  }
  // Gradients are made of one canary at a time.
  Observer observer(world, what, event, groups, /*micro_batch=*/1);
  ObservedTraining observed(world, what, event, groups, std::move(units), key);
  const auto losses = [&] {
    observer.look_at(observed.weights());
    return observer.losses(canaries);
  };
  const auto first = black_box ? losses() : std::vector<double>{};
  Products products(black_box ? 0 : config.canaries);
  for (int64_t t = 0; t < what.work.steps; ++t) {
    if (black_box) {
      observed.step();
      continue;
    }
    observer.look_at(observed.weights());
    auto others = observed.drawn();
    std::erase_if(others, [&](int64_t unit) { return unit >= what.work.batch_size; });
    const auto expected = observer.sum(others);
    std::vector<Parts> gradients;
    for (const auto canary : canaries) gradients.push_back(observer.sum(event.samples_of(canary)));
    auto released = observed.step();
    for (size_t i = 0; i < released.size(); ++i) released[i].sub_(expected[i]);
    products.add(gradients, released, event.claimed.clip_norm);
  }
  std::vector<double> scores;
  if (black_box) {
    const auto last = losses();
    for (size_t i = 0; i < last.size(); ++i) scores.push_back(first[i] - last[i]);
  } else {
    products.gram_MM = over_ranks(products.gram_MM, groups);
    products.along_M = over_ranks(products.along_M, groups);
    scores = products.scores(what.budget.sample_rate, what.dp.sigma);
  }
  const auto claimed = event.claimed.accounted();
  return {.kind = config.kind,
          .canaries = config.canaries,
          .included = std::count(included.begin(), included.end(), true),
          .steps = what.work.steps,
          .sample_rate = what.budget.sample_rate,
          .sigma = what.dp.sigma,
          .delta = what.budget.delta,
          .confidence = config.confidence,
          .claimed_epsilon = privacy::prv_epsilon({&claimed, 1}, what.budget.delta),
          .bound = one_run_bound(scores, included, what.budget.delta, config.confidence),
          .unit = to_string(event.claimed.unit)};
}

}  // namespace shade::proof
