// What a private run has spent and may spend, and the keys of its steps.
#pragma once

#include "shade/train/budget.h"
#include "shade/train/data_spending.h"
#include "shade/train/history.h"

namespace shade::train {

class Spending {
 public:
  // All must outlive it. Opens the ledger. Collective, as is look(). `windows` says which ones a unit of packed data
  // is: of another length or tokenizer they are other units.
  Spending(const Recipe& recipe, const privacy::PrivacyEvent& event, RunFolder& folder, const comm::Group& control,
           bool replayable, const std::string& windows = "");

  // What was spent and how far the run may go. `exact` is what decides its bits, `from` where it goes on, `saved` the
  // step of that checkpoint; -1: there is none. Throws UsageError if steps would be spent a second time.
  void look(const std::string& exact, const std::optional<checkpoint::Origin>& from, int64_t saved);

  History& history() { return history_; }
  const std::optional<Budget>& budget() const { return budget_; }  // of a run that may state an epsilon
  const std::string& no_epsilon() const { return no_epsilon_; }    // why it may not
  int64_t last() const { return last_; }                           // step that keeps the budget
  int64_t made() const { return made_; }                           // steps below it are in the ledger
  int64_t spent() const { return spent_; }                         // steps in the ledger, of all histories of this run

  // Before a step: counted in the data ledger, if there is one. False: it has no room for it any more. Collective.
  bool reserve(int64_t step) { return !data_ || data_->reserve(step); }
  // When a step's clipped sum is complete, before its noise is drawn. Collective.
  void spend(int64_t step, const checkpoint::SumDigest& sum);
  // When no more steps will be made: where the data ledger stands; empty: there is none. Collective.
  std::string settle(int64_t steps) { return data_ ? data_->settle(steps) : ""; }
  const DataSpending* data() const { return data_ ? &*data_ : nullptr; }

  // At the end of the run: the key has no use any more, and is the one thing that could undo the noise. Says what was
  // done with it; empty: there was none. Collective.
  std::string forget_key(int64_t steps, bool keep);

 private:
  void require_restart() const;

  const Recipe* recipe_;
  privacy::PrivacyEvent event_;
  RunFolder* folder_;
  comm::Group control_;
  History history_;
  std::optional<DataSpending> data_;
  std::optional<Budget> budget_;
  std::string no_epsilon_;
  int64_t last_ = 0, made_ = 0, spent_ = 0;
};

}  // namespace shade::train
