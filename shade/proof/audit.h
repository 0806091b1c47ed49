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
#include "shade/shard/runtime.h"
#include "shade/train/model_config.h"

namespace shade::proof {

// Faults that an audit must notice. They are made here, around the step; the step has no such switch.
enum class AuditFault { none, half_noise, no_clip, rank0_noise, clip_records };
inline std::span<const Name<AuditFault>> names_of(AuditFault) {
  static constexpr Name<AuditFault> kNames[] = {{"none", AuditFault::none},
                                                {"half_noise", AuditFault::half_noise},
                                                {"no_clip", AuditFault::no_clip},
                                                {"rank0_noise", AuditFault::rank0_noise},
                                                {"clip_records", AuditFault::clip_records}};
  return kNames;
}

// [audit], and the model: its options are in [model], as in recipes.
struct AuditConfig : train::ModelConfig {
  int64_t seq_length = 12, batch_size = 7, max_records_per_user = 1, runs = 20000, seed = 1;
  double delta = 1e-5, confidence = 0.999;
  AuditFault fault = AuditFault::none;

  void declare(Fields& fields);
};

struct Audit {
  AuditConfig audit;
  models::SizeOverrides sizes;
  shard::ShardConfig shard;
  privacy::DpConfig dp{.dp = privacy::MethodName::flash_bookkeeping};

  void declare(Config& config);
};

enum class Verdict { stands, wrong, nothing };  // nothing: a fault could hide from this audit
inline std::span<const Name<Verdict>> names_of(Verdict) {
  static constexpr Name<Verdict> kNames[] = {
      {"stands", Verdict::stands}, {"wrong", Verdict::wrong}, {"nothing shown", Verdict::nothing}};
  return kNames;
}

struct AuditResult {
  int64_t runs = 0;  // of each world
  int64_t false_alarms = 0, misses = 0;
  double canary = 0;  // length of what it adds to the sum, in clip norms
  double claimed_mu = 0, claimed_epsilon = 0;
  double lower_mu = 0, lower_epsilon = 0;  // the mechanism has at least this, at the stated confidence
  double visible_epsilon = 0;   // these runs would find so much at least if the noise were half of what is claimed, but
                                // for one audit in 1,000
  double longest = 1;           // a canary may have, in clip norms; rounding makes it more than 1
  std::string unit = "record";  // what the canary is

  Verdict verdict() const;
  std::string why() const;  // nothing is shown, or the claim is wrong
  bool pass() const { return verdict() == Verdict::stands; }
  Json json() const;
};

AuditResult audit(comm::World& world, const Audit& what);  // collective; the same answer for all ranks

// The largest rate that is not refuted by `count` of `runs` at this confidence.
double upper_rate(int64_t count, int64_t runs, double confidence);

}  // namespace shade::proof
