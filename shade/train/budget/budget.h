// One privacy event, and what is made from it: the sampler, the noise's scale, and what the accountant counts. So the
// sampler that runs is the sampler that is accounted for.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "shade/accounting/accountant.h"
#include "shade/checkpoint/ledger.h"
#include "shade/data/sampler.h"
#include "shade/privacy/key.h"
#include "shade/train/spec/run_spec.h"

namespace shade::train {

// What epsilon protects; of a run that is not private, what a batch is made of: records.
privacy::PrivacyUnit unit_of(const RunSpec& run);
// What else makes other records, windows or users of the same files (PrivacyEvent::unit_by).
std::string unit_by_of(const RunSpec& run);

// Of a private run over so many units of privacy; sigma is found if a target epsilon is set. Throws UsageError.
privacy::PrivacyEvent event_of(const RunSpec& run, int64_t units);
// If delta would allow revealing one unit of so many. One rank calls it.
void warn_of_delta(const RunSpec& run, const privacy::PrivacyEvent& event, int64_t units);

// Batches under a key (of an incarnation, train/budget/history.h). For runs that are not private the event's sampler,
// rate and sizes are all that is looked at.
std::unique_ptr<data::Sampler> make_sampler(const privacy::PrivacyEvent& event, int64_t units, int64_t batch_size,
                                            const privacy::NoiseKey& key);

// Why no epsilon may be said of this run; empty: it may.
std::string no_epsilon(const RunSpec& run);

// The mechanism in a ledger's event, and back. No mechanism: steps that no accountant supports.
// Seeded noise protects nothing; steps that are not `accounted` have no mechanism, whatever their event says.
Json event_json(const privacy::PrivacyEvent& event, bool seeded, bool accounted = true);
std::optional<privacy::Mechanism> mechanism_in(const Json& event);

// What a ledger has of earlier steps, seen from a run of `event` whose noise has a seed or has none.
struct Earlier {
  std::vector<privacy::Steps> steps;  // those that an accountant supports
  int64_t count = 0;                  // of all
  int64_t protected_steps = 0;        // of those that an accountant supports, with noise from a secret key
  std::string other_unit;             // how what protected steps protect differs from the event's unit, if it does
  std::string no_epsilon;             // why none may be stated over them; empty: it may
};
Earlier earlier_steps(std::span<const checkpoint::Spent> ledger, const privacy::PrivacyEvent& event, bool seeded);

// What was spent in a run directory, and may be.
class Budget {
 public:
  // `spent`: what the ledger has, of all mechanisms. Steps of this run below `made` are in it.
  Budget(privacy::PrivacyEvent event, const BudgetConfig& config, std::vector<privacy::Steps> spent = {},
         int64_t made = 0);

  privacy::Spent after(int64_t step) const;
  int64_t allowed() const { return allowed_; }  // the last step, up to the event's, that keeps max_epsilon

 private:
  privacy::PrivacyEvent event_;
  privacy::Accountant accountant_;
  std::vector<privacy::Steps> spent_;
  int64_t made_, allowed_;
};

}  // namespace shade::train
