// Can an observer break the claim? A white-box audit of one private step with a canary.
//
// Two worlds: a batch, and the same batch with one record (or one user with several records) more, whose clipped
// gradient has length C. The observer sees
// the whole noisy sum, knows both sums without noise, and says which world it is by the side of the middle on which the
// sum lies. The step is the program's own; only the noise changes from run to run. Without sampling the claim is that
// of the Gaussian mechanism: no test tells the worlds apart better than N(0, 1) from N(1 / sigma, 1). The observer's
// error rates, each with a confidence bound (Clopper and Pearson), give a mu that the mechanism has at least, and that
// an epsilon (Nasr et al. 2023). Above the claim: the claim is wrong.
#pragma once

#include "shade/base/json.h"
#include "shade/privacy/config.h"
#include "shade/proof/audit_bounds.h"
#include "shade/shard/runtime.h"
#include "shade/train/spec/resolve.h"
#include "shade/train/spec/run_spec.h"

namespace shade::proof {

// What is audited. step: this file. training: proof/audit_training.h. one_run, model: proof/audit_canaries.h.
enum class AuditKind { step, training, one_run, model };
inline std::span<const Name<AuditKind>> names_of(AuditKind) {
  static constexpr Name<AuditKind> kNames[] = {{"step", AuditKind::step},
                                               {"training", AuditKind::training},
                                               {"one_run", AuditKind::one_run},
                                               {"model", AuditKind::model}};
  return kNames;
}

// Faults that an audit must notice. They are made here, around the step; the step has no such switch.
enum class AuditFault { none, half_noise, no_clip, rank0_noise, clip_records, no_sampling, reused_noise };
inline std::span<const Name<AuditFault>> names_of(AuditFault) {
  static constexpr Name<AuditFault> kNames[] = {{"none", AuditFault::none},
                                                {"half_noise", AuditFault::half_noise},
                                                {"no_clip", AuditFault::no_clip},
                                                {"rank0_noise", AuditFault::rank0_noise},
                                                {"clip_records", AuditFault::clip_records},
                                                {"no_sampling", AuditFault::no_sampling},
                                                {"reused_noise", AuditFault::reused_noise}};
  return kNames;
}

// [audit], beside what a run says of lengths, rates and seeds.
struct AuditConfig {
  AuditKind kind = AuditKind::step;
  int64_t runs = 20000;
  int64_t trainings = 600, canaries = 200, micro_batch = 8;  // of the other kinds
  double confidence = 0.999;
  AuditFault fault = AuditFault::none;

  void declare(Fields& fields, train::RunSpec& run);
};

// A run that is audited: small, unless stated otherwise. Its batch_size is of records beside the canary.
struct Audit : train::RunSpec {
  AuditConfig audit;
  train::RunSpec trained;  // what a recipe says of its training

  Audit();
  void declare(Config& config);
};

// What follows in an audit; train::resolve() calls it. What a recipe says of its training holds unless the audit's own
// options say otherwise. Throws UsageError.
train::Decisions decide(Audit& what, const Given& given, int ranks);

// nothing: a fault could hide from this audit. not_refuted: a large one could not.
enum class Verdict { stands, wrong, nothing, not_refuted };
inline std::span<const Name<Verdict>> names_of(Verdict) {
  static constexpr Name<Verdict> kNames[] = {{"stands", Verdict::stands},
                                             {"wrong", Verdict::wrong},
                                             {"nothing shown", Verdict::nothing},
                                             {"not refuted", Verdict::not_refuted}};
  return kNames;
}

// Of a canary in clip norms. The noise is made for one clip norm, and rounding has its margin below it
// (privacy::clip_margin): a longer one is a fault, however little. A shorter one than the least hides faults.
constexpr double kLongestCanary = 1, kShortestCanary = 0.9;

struct AuditResult {
  int64_t runs = 0;  // of each world
  int64_t false_alarms = 0, misses = 0;
  double canary = 0;  // length of what it adds to the sum, in clip norms
  double claimed_mu = 0, claimed_epsilon = 0;
  double lower_mu = 0, lower_epsilon = 0;  // the mechanism has at least this, at the stated confidence
  double visible_epsilon = 0;  // these runs would find so much at least if the noise were half of what is claimed, but
                               // for one audit in 1,000
  double delta = 0, confidence = 0;
  std::string unit = "record";  // what the canary is

  Verdict verdict() const;
  std::string why() const;  // nothing is shown, or the claim is wrong
  bool pass() const { return verdict() == Verdict::stands; }
  std::vector<std::string> assumes() const;
  Json json() const;
};

AuditResult audit(comm::World& world, const Audit& what);  // collective; the same answer for all ranks

// Throws UsageError: not private, no noise, adaptive clipping, a fault that is none there.
void require_auditable(const Audit& what, int ranks);

}  // namespace shade::proof
