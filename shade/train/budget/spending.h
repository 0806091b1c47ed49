// What a private run has spent and may spend, and the keys of its steps.
#pragma once

#include <optional>
#include <string>

#include "shade/comm/group.h"
#include "shade/train/budget/budget.h"
#include "shade/train/budget/data_ledger.h"
#include "shade/train/budget/history.h"

namespace shade::train {

// A private run's part of a data ledger. Rank 0 accesses the file; all ranks get what it finds, and fail with it.
//
// Steps are reserved in blocks of a 64th of the run, so that the file stays short and the ranks seldom wait for it. A
// run that ends regularly returns what it did not use of its last block; of a killed run the block stays counted.
class DataSpending {
 public:
  // Must be outlived by the history, whose ledger remembers the file's end. Touches nothing.
  DataSpending(std::string file, Spender spender, comm::Group control, History& history);

  // Collective, after History::look(). Steps of this run from `made` up to `last` are new. Returns the last of them
  // that the cap allows at the moment. Throws UsageError if the file is not this run's, or the cap allows not even the
  // first step.
  int64_t look(int64_t made, int64_t last);

  // Collective, before each step, after History::start(): counted when this returns. False: the cap allows no more.
  bool reserve(int64_t step);
  bool is_reserved(int64_t step) const { return step < reserved_; }

  // Collective, when `steps` steps were made and no more will be: returns how much of the cap is used.
  std::string settle(int64_t steps);

  const std::string& standing_text() const { return standing_; }  // where the data set stood at look()

 private:
  void read_on_rank0(Json& found);
  void require_counted(const DataBooks& books);
  void remember_end();

  std::string file_;
  Spender spender_;
  comm::Group control_;
  History* history_;
  std::optional<DataLedger> ledger_;  // rank 0's
  std::string id_;                    // rank 0's
  int64_t made_ = 0, last_ = 0;
  int64_t reserved_ = 0;  // steps below it are counted
  std::string standing_;
};

// Collective. Throws UsageError if the run in this history spends from a data ledger: it must be named again.
void require_no_data_ledger(const comm::Group& control, const History& history);

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

  // Before a step: counted in the data ledger, if there is one. False: it has no budget left for it. Collective.
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
