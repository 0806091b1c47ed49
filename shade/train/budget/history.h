// The secret and the history of a private run: which key each step's batch and noise come from, and what was spent.
//
// Rank 0 has the ledger and the key file. All ranks know the stretches of steps (checkpoint/ledger.h) and their keys:
// steps that were made before come from the bytes they were made from, new ones from bytes that this process drew.
#pragma once

#include <optional>

#include "shade/checkpoint/ledger.h"
#include "shade/comm/group.h"
#include "shade/privacy/config.h"
#include "shade/privacy/key.h"
#include "shade/train/run/run_folder.h"

namespace shade::train {

class History {
 public:
  struct Options {
    std::optional<uint64_t> seed{};  // of the noise: repeatable, not private
    bool replayable = true;          // a step made again has the same bits; not so on accelerators
  };

  // All collective over `control`. The folder must outlive it. Opens the ledger.
  History(RunFolder& folder, comm::Group control, Options options);
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  // Of a run that continues from a checkpoint's state, or from the first weights. `exact` is what decides its bits.
  struct Known {
    int64_t made = 0;  // steps below it are in the ledger and will be repeated to the bit
    std::vector<checkpoint::Spent> spent;
  };
  Known look(const std::string& exact, const Json& event, const std::optional<checkpoint::Origin>& from);

  // A keyed hash of words that follow from the records, for files that others may read: without the run's key it can't
  // be computed for other records. None: this run has no key (any more). Before start() rank 0 alone knows the key.
  std::optional<std::string> sealed(const std::string& words) const;
  std::optional<bool> is_sealed(const std::string& words, const Json& seal) const;  // collective; none: no key

  // After look(), before the first step: new steps have their random bytes in the ledger. A run without a key gets one.
  void start();

  // Rank 0's alone: what its ledger has by incarnation, and was asked to remember (checkpoint/ledger.h).
  std::vector<checkpoint::Ledger::Counted> counted() const { return ledger_.value().counted(); }
  Json remembered() const { return ledger_.value().remembered(); }
  void remember(const Json& what) { ledger_.value().remember(what); }

  // Not collective, thread-safe after start().
  privacy::NoiseKey key_of(int64_t step) const;
  std::optional<checkpoint::Origin> origin(int64_t step) const;  // of the state after so many steps

  // When a step's clipped sum is complete, before its noise is drawn.
  void spend(int64_t step, const checkpoint::SumDigest& sum);

 private:
  struct Keyed {
    checkpoint::Stretch stretch;
    privacy::NoiseKey key;
  };

  RunFolder* folder_;
  comm::Group control_;
  Options options_;
  std::optional<checkpoint::Ledger> ledger_;  // rank 0's
  checkpoint::PrivateRun run_;
  std::string exact_;
  std::optional<checkpoint::Origin> from_;
  std::optional<privacy::NoiseKey> key_;  // of the run; rank 0's until start()
  std::vector<Keyed> stretches_;
};

}  // namespace shade::train
