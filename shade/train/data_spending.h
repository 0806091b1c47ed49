// A private run's part of a data ledger. Rank 0 accesses the file; all ranks get what it finds, and fail with it.
//
// Steps are reserved in blocks of a 64th of the run, so that the file stays short and the ranks seldom wait for it. A
// run that ends regularly returns what it did not use of its last block; of a killed run the block stays counted.
#pragma once

#include <optional>
#include <string>

#include "shade/comm/group.h"
#include "shade/train/data_ledger.h"
#include "shade/train/history.h"

namespace shade::train {

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

  const std::string& words() const { return words_; }  // where the data set stood at look()

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
  std::string words_;
};

// Collective. Throws UsageError if the run in this history spends from a data ledger: it must be named again.
void require_no_data_ledger(const comm::Group& control, const History& history);

}  // namespace shade::train
