// An audit in one training: many canaries, each in the data or not by its own coin (proof/audit_bounds.h).
//
// one_run   every step is observed (proof/observed_training.h). What the observer can't explain by the other drawn
//           records is a sum of the included canaries' gradients and noise; its least squares over all steps, with the
//           coins' variance as prior, scores every canary.
// model     black box: only the losses of the canaries under the weights before and after the training are seen. The
//           canary whose loss fell the most has the highest score.
//
// The bound holds for whatever is trained and however the scores are made. It is far from tight: of the Gaussian
// mechanism's epsilon a few hundred canaries show a fraction, so this audit finds faults that are large.
// cost: as many small gradients per step as there are canaries, for `model` two losses each.
#pragma once

#include "shade/proof/audit.h"
#include "shade/proof/audit_bounds.h"

namespace shade::proof {

struct CanaryAuditResult {
  AuditKind kind = AuditKind::one_run;
  int64_t canaries = 0, included = 0;
  int64_t steps = 0;                  // 0: not known, the model was trained elsewhere
  double sample_rate = 0, sigma = 0;  // the same
  double delta = 0, confidence = 0;
  double claimed_epsilon = 0;
  OneRunBound bound;
  std::string unit = "record";

  Verdict verdict() const;
  std::string why() const;
  bool pass() const { return verdict() == Verdict::not_refuted; }
  std::vector<std::string> assumes() const;
  Json json() const;
};

CanaryAuditResult audit_canaries(comm::World& world, const Audit& what);  // collective; the same for all ranks

}  // namespace shade::proof
