// One privacy event, and what is made from it: the sampler, the noise's scale, and what the accountant counts. So the
// sampler that runs is the sampler that is accounted for.
#pragma once

#include <memory>
#include <optional>

#include "shade/data/sampler.h"
#include "shade/privacy/accounting/accountant.h"
#include "shade/privacy/noise.h"
#include "shade/train/recipe.h"

namespace shade::train {

// Of a private run over so many records; sigma is found if a target epsilon is set. Throws UsageError.
privacy::PrivacyEvent event_of(const Recipe& recipe, int64_t records);

// Batches of a run, from one key: an incarnation that isn't an exact replay draws other batches (train/trainer.h). For
// runs that are not private the event's sampler, rate and sizes are all that is looked at.
std::unique_ptr<data::Sampler> make_sampler(const privacy::PrivacyEvent& event, int64_t records, int64_t batch_size,
                                            const privacy::NoiseKey& key, uint64_t incarnation);

// Why no epsilon may be said of this run; empty: it may.
std::string no_epsilon(const Recipe& recipe);

class Budget {
 public:
  // `earlier`: what was spent on the same records by other mechanisms.
  Budget(privacy::PrivacyEvent event, const BudgetConfig& config, std::vector<privacy::Steps> earlier = {});

  const privacy::PrivacyEvent& event() const { return event_; }
  privacy::Spent after(int64_t steps) const;  // of this mechanism
  int64_t allowed() const { return allowed_; }  // the most steps, up to the event's, that keep max_epsilon

 private:
  privacy::PrivacyEvent event_;
  privacy::Accountant accountant_;
  std::vector<privacy::Steps> earlier_;
  int64_t allowed_;
};

}  // namespace shade::train
