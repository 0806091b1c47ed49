// An audit of whole trainings: many short ones with a canary and many without it, against the composed epsilon.
//
// The observer (proof/observed_training.h) sees the noisy sum of every step, subtracts what the other drawn records
// contribute, and projects the rest onto the canary's clipped gradient, in clip norms: s_t = b_t + sigma N(0, 1), with
// b_t = 1 if the canary is in the data and was drawn. That is the pair of distributions that the accountant composes:
// against a correct implementation an observer can do as well as the claim allows, and no better. Three decision rules,
// fixed before the trainings:
//
//   likelihood   sum_t log(1 - q + q exp((2 s_t - 1) / (2 sigma^2))) is above a threshold. The optimal test if noise
//                and sampling are as claimed. The threshold is chosen from simulated trainings with half the noise.
//   spread       max_t s_t - min_t s_t is above 1/2. No evidence if the noise of steps is independent; noise that is
//                reused cancels and leaves only the canary.
//   last_rank    with several ranks: max_t of b_t, estimated from the last rank's shards alone, is above 1/2. No
//                evidence if these shards have noise; without noise they show exactly whether the canary was drawn.
//
// The confidence bounds of the error rates hold for all rules jointly. The claim is refuted if one of its points
// (epsilon, delta) excludes the rates.
// cost: three small gradients per step.
#pragma once

#include "shade/proof/audit.h"

namespace shade::proof {

// What the observer sees of one training, by step.
struct Observations {
  std::vector<double> all;        // s_t
  std::vector<double> last_rank;  // b_t, estimated from the last rank's shards; empty with one rank
};

// The decision rules. Their thresholds follow from the claim and from simulation, not from what was observed.
class ObserversRules {
 public:
  // `curve` is that of `claimed`. The threshold is that for a canary of one clip norm.
  ObserversRules(const privacy::Steps& claimed, const ClaimedCurve& curve, int64_t trainings, double confidence);

  bool by_likelihood(const Observations& seen) const { return likelihood(seen) > threshold_; }
  static bool by_spread(const Observations& seen);
  static bool by_last_rank(const Observations& seen);

  // Error rates that 999 of 1,000 audits would find, or lower ones, if the noise were half of what is claimed and the
  // canary had this many clip norms.
  ErrorRates visible(double canary) const { return rates_at(threshold_, half_noise_scores(canary)); }

 private:
  double likelihood(const Observations& seen) const;
  std::vector<double> half_noise_scores(double canary) const;  // of simulated trainings, ascending
  ErrorRates rates_at(double threshold, const std::vector<double>& with) const;

  privacy::Steps claimed_;
  int64_t trainings_;
  double confidence_;
  std::vector<double> without_;  // scores of simulated trainings without a canary
  double threshold_ = 0;
};

struct TrainingAuditResult {
  struct Rule {
    std::string name;
    int64_t false_alarms = 0, misses = 0;
    ErrorRates rates{};
  };
  int64_t trainings = 0, steps = 0;  // trainings per world, steps per training
  double sample_rate = 0, sigma = 0, delta = 0, confidence = 0;
  double shortest = 0, longest = 0;  // length of the canary's gradient over all steps, in clip norms
  std::vector<Rule> rules;
  std::string found_by;  // name of the rule with the strongest evidence
  double claimed_epsilon = 0;
  double lower_epsilon = 0;       // if the noise is Gaussian of unknown sigma: from all points of the curve
  double definition_epsilon = 0;  // for any mechanism: from delta alone
  bool excluded = false;          // the claim excludes the observed rates
  bool half_visible = false;      // half the claimed noise would have been noticed
  std::string unit = "record";

  Verdict verdict() const;
  std::string why() const;
  bool pass() const { return verdict() == Verdict::stands; }
  std::vector<std::string> assumes() const;
  Json json() const;
};

// Applies the rules to the same number of trainings from both worlds, and sets whether the claim excludes their rates.
void judge(TrainingAuditResult& result, const privacy::Steps& claimed, const std::vector<Observations>& without,
           const std::vector<Observations>& with);

// Sets the lower bound of epsilon that follows from the rates. cost: about 2 s.
void state_bounds(TrainingAuditResult& result, const privacy::Steps& claimed);

TrainingAuditResult audit_training(comm::World& world, const Audit& what);  // collective; the same for all ranks

}  // namespace shade::proof
