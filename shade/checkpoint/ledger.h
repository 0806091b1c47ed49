// What was spent of a privacy budget: an append-only file, written ahead, that outlives checkpoints.
//
// A step's line is on the disk before its noise is drawn. So whatever happens, the file knows at least what was
// released; going back to an older checkpoint, or to none, gives nothing back.
//
// Steps made twice. After a crash a run goes back to its last checkpoint and makes some steps again. Two cases:
//  - The very same step: same key, same noise, same batch, same weights, same bits. Then what comes out was released
//    before, and is counted once.
//  - Anything else. The same noise on another sum would give away the difference of the two, exactly. So it needs other
//    noise, and is counted again.
// An incarnation is a stretch of steps with noise of its own (privacy::Noise takes the number). It has one history: it
// begins where a state came from, and its steps follow each other. A state is known by its Origin: (incarnation, number
// of steps made). Who goes on from a state in the incarnation that made it, with the same PrivateRun, can only repeat
// that history, and later extend it. Everybody else gets a new incarnation. Checkpoints carry the Origin.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shade/base/json.h"
#include "shade/checkpoint/chain.h"
#include "shade/checkpoint/file_lock.h"

namespace shade::checkpoint {

// All that decides a step's bits. If one of them changes, steps that were made are not made again but anew.
struct PrivateRun {
  std::string key;    // which noise key: a digest of it, never the key
  std::string exact;  // the rest: first weights, data, sampler's seed, world size, strategy, types, threads, program
  Json event;         // for the accountant: sampler, rate, sigma, clip norm, divisor, delta

  bool operator==(const PrivateRun&) const = default;
};

struct Origin {
  uint64_t incarnation = 0;
  int64_t step = 0;  // steps made, those of earlier incarnations included

  bool operator==(const Origin&) const = default;
  Json json() const;                          // for a checkpoint
  static Origin from_json(const Json& json);  // throws UsageError
};

struct Spent {
  Json event;
  int64_t steps = 0;
};

// One process writes (rank 0), one run at a time: the file is locked. Not thread-safe.
class Ledger {
 public:
  // Makes the file if there is none. Reads and proves it all; throws io::FormatError if it is damaged. A last line
  // whose writing was interrupted counts as spent by the incarnation before it, though its flush can't have returned:
  // as many steps as its bytes could have been.
  explicit Ledger(const std::filesystem::path& file);

  // Before the first step. `from` is the Origin that the loaded checkpoint carries; none: from the first weights.
  // Returns the incarnation for the noise. Throws Error if the ledger doesn't know that state: then it is not the
  // ledger of that checkpoint, or it lost what was spent.
  uint64_t start(const PrivateRun& run, const std::optional<Origin>& from = {});

  // Before a step's noise is drawn, in order. When it returns, the step is on the disk. True: it was there before, this
  // is an exact replay. After an error nothing more is accepted: the disk's state is unknown.
  bool spend(int64_t step);

  // After start(): steps below it were spent by this incarnation before, so making them again is a replay.
  int64_t made() const;

  // Of a state after `step` steps of this run.
  Origin origin(int64_t step) const;

  std::vector<Spent> spent() const;  // by event, of all runs; a replay counts once

  // The same of a file that may be in use.
  static std::vector<Spent> read(const std::filesystem::path& file);

 private:
  struct Incarnation {
    PrivateRun run;
    std::optional<Origin> from;
    int64_t head = 0;  // steps [begin, head) were spent
    int64_t begin() const { return from ? from->step : 0; }
  };
  struct Books {
    std::vector<Incarnation> incarnations;
    uint64_t last = 0;  // the incarnation of the last line
    void take(const std::string& record, size_t line);
    Json seal(size_t torn) const;
    std::vector<Spent> spent() const;
  };
  static Books books_of(const Chain& chain);
  void append(const Json& record, std::string_view torn = {});
  void write(std::string_view words);

  std::filesystem::path path_;
  FileLock lock_;
  io::Digest head_{};
  Books books_;
  std::optional<uint64_t> current_;
  int64_t next_ = 0;  // the step that must come
  bool broken_ = false;
};

}  // namespace shade::checkpoint
