// Privacy as part of a plan: which batch, steps and noise a privacy budget and a compute budget allow together.
//
//   N records, expected batch B, T steps, sample rate q = B / N
//   sigma = sigma(q, T, epsilon, delta)   by the prv accountant: a law
//   r = sigma / B                         noise-batch ratio: the noise on the mean gradient, in clip norms
//   cost = B T records                    the same for all ways to divide it into batch and steps
//
// For a number of steps r falls with the batch, at first like 1 / B, then ever more slowly: sigma grows with q, and r
// never falls below sigma(1, T) / N. The knee is the largest batch for which a doubling of the batch still lowered r by
// a factor of sqrt(2): beyond it, halving r costs more than four times as much. What r a model needs is practice, not
// law: no formula here says what a model will have learnt.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shade/accounting/event.h"
#include "shade/base/config.h"
#include "shade/base/json.h"

namespace shade::plan {

// What a user says about it; the model, its length and the device are the plan's.
struct PrivacyPlanConfig {
  int64_t records = 0;  // 0: nothing is asked
  double target_epsilon = 0;
  double delta = 0;
  int64_t expected_batch = 0;
  int64_t steps = 0;
  double budget_gpu_hours = 0;
  double budget_flops = 0;

  void declare(Fields& fields);
};

struct PrivacyQuestion {
  int64_t records = 0;
  double target_epsilon = 0;
  double delta = 0;
  privacy::PrivacyUnit unit = privacy::PrivacyUnit::record;
  int64_t batch = 0, steps = 0;  // 0: follows from the budget
  double budget_gpu_hours = 0, budget_flops = 0;
  int64_t length = 0;               // tokens per record; 0: not stated
  double flops_per_record = 0;      // model FLOPs (models/flops.h); 0: not known
  double flops_per_gpu_second = 0;  // model FLOP/s that a GPU reaches in such a step; 0: not known
  int64_t ratio_doublings = 3;      // rows of the tables on either side of the plan

  void require_valid() const;
};

struct PrivacyRow {
  int64_t batch = 0, steps = 0;
  double sample_rate = 0, sigma = 0, epsilon = 0;
  double ratio = 0;          // r
  double records_read = 0;   // B T
  double flops = 0;          // 0: not known
  double gpu_hours = 0;      // 0: not known
  bool beyond_knee = false;  // the last doubling of the batch lowered r by less than sqrt(2)
  bool knee = false;         // the last row that is not
  bool chosen = false;
};

struct PrivacyPlan {
  PrivacyQuestion question;
  PrivacyRow chosen;
  std::vector<PrivacyRow> by_cost;    // the chosen steps, batches doubled: what a lower r costs
  std::vector<PrivacyRow> same_cost;  // the chosen cost, fewer and larger or more and smaller steps
  double floor = 0;                   // r with all records in every batch, at the chosen steps
  std::optional<double>
      halving;  // cost of half the chosen r at the same steps, over the chosen cost; none: not reachable
  std::vector<std::string> law, practice;

  std::string str() const;
  Json json() const;
};

PrivacyPlan plan_privacy(const PrivacyQuestion& question);

// A run whose figures are public, for comparison. The noise-batch ratio and FLOPs (6 N D) follow from the others.
struct PublishedRun {
  const char* name;
  int64_t records, batch, steps, length;
  double sigma, delta, stated_epsilon, parameters;

  double ratio() const { return sigma / static_cast<double>(batch); }
  double flops_per_record() const { return 6 * parameters * static_cast<double>(length); }
};
const PublishedRun& largest_published_run();

}  // namespace shade::plan
