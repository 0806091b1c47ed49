// An audit of whole trainings: many short ones with a canary and many without it, against the composed epsilon.
//
// The observer (proof/observed_training.h) gets every step's noisy sum, takes away what the other drawn records add,
// and measures what is left along the canary's clipped gradient, in clip norms: s_t = b_t + sigma N(0, 1), with b_t = 1
// if the canary is in the data and was drawn. That is the pair of distributions that the accountant composes, so a
// right implementation can be told apart as well as the claim allows, and no better. Three rules, fixed before the
// trainings:
//
//   likelihood   sum_t log(1 - q + q exp((2 s_t - 1) / (2 sigma^2))) above a threshold: the best test there is if
//                noise and sampling are as claimed. The threshold is chosen by simulated trainings with half the noise.
//   spread       max_t s_t - min_t s_t above 1/2. Useless if noises are independent; if one noise is used again it
//                cancels, and the canary is all that is left.
//   last_rank    of several ranks: max_t above 1/2 of what the last rank's shards alone say of b_t. Useless if they
//                have noise; without it they say exactly whether the canary was drawn.
//
// Error rates have confidence bounds that hold for all rules together. The claim is wrong if one of its points
// (epsilon, delta) excludes the rates.
// cost: three small gradients for each step.
#pragma once

#include "shade/proof/audit.h"

namespace shade::proof {

// What an observer saw of a training, step by step.
struct Observations {
  std::vector<double> all;        // s_t
  std::vector<double> last_rank;  // b_t by the last rank's shards; empty: there is one rank
};

// How the observer decides: from the claim alone, and by simulation.
class ObserversRules {
 public:
  ObserversRules(const privacy::Steps& claimed, double canary, int64_t trainings, double confidence);  // in clip norms

  bool by_likelihood(const Observations& seen) const { return likelihood(seen) > threshold_; }
  static bool by_spread(const Observations& seen);
  static bool by_last_rank(const Observations& seen);

  // What the trainings would find if the noise were half of what is claimed, but for one audit in 1,000.
  const ErrorRates& visible() const { return visible_; }

 private:
  double likelihood(const Observations& seen) const;

  privacy::Steps claimed_;
  double threshold_ = 0;
  ErrorRates visible_;
};

struct TrainingAuditResult {
  struct Rule {
    std::string name;
    int64_t false_alarms = 0, misses = 0;
    ErrorRates rates{};
  };
  int64_t trainings = 0, steps = 0;  // of each world
  double sample_rate = 0, sigma = 0, delta = 0, confidence = 0;
  double shortest = 0, longest = 0;  // canary, in clip norms, of all steps
  double allowed = 1;                // that it may have; rounding makes it more than 1
  std::vector<Rule> rules;
  std::string found_by;  // the rule
  double claimed_epsilon = 0;
  double lower_epsilon = 0;       // of a run like this with another sigma, by all points of the curve
  double definition_epsilon = 0;  // of any mechanism, at delta alone
  bool excluded = false;          // the claim excludes the rates
  bool half_visible = false;      // it would, if the noise were half of what is claimed
  std::string unit = "record";

  Verdict verdict() const;
  std::string why() const;
  bool pass() const { return verdict() == Verdict::stands; }
  std::vector<std::string> assumes() const;
  Json json() const;
};

// From what was seen in both worlds, of as many trainings each: rules, and whether the claim excludes their rates.
void judge(TrainingAuditResult& result, const privacy::Steps& claimed, const std::vector<Observations>& without,
           const std::vector<Observations>& with);

// The bounds of epsilon that follow from the rules' rates. cost: about 2 s.
void state_bounds(TrainingAuditResult& result, const privacy::Steps& claimed);

TrainingAuditResult audit_training(comm::World& world, const Audit& what);  // collective; the same for all ranks

}  // namespace shade::proof
