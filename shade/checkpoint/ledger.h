// What was spent of a privacy budget: an append-only file, written ahead, that outlives checkpoints.
//
// A step's line is on the disk before its noise is drawn. So whatever happens, the file knows at least what was
// released; going back to an older checkpoint, or to none, gives nothing back.
//
// Steps made twice. After a crash a run goes back to its last checkpoint and repeats some steps. Two cases:
//  - The very same step: same key, same noise, same batch, same weights, same bits. Then what comes out was released
//    before, and is counted once.
//  - Anything else. The same noise on another sum would reveal the exact difference of the two. So it needs other
//    noise, and is counted again.
//
// An incarnation is a stretch of steps whose batches and noise come from random bytes of its own, written here before
// they are used. Only steps that this file has are replayed from the bytes they were made from; every step that is new
// to it comes from bytes drawn by the process that makes it. So two copies of a run directory that go on never share
// noise, whatever was changed in either. Exception: runs with a seed, which protect nothing, go on where they were, so
// that they can be repeated.
//
// A state is known by its Origin: (incarnation, number of steps made). Checkpoints carry it. Steps are replayed along
// the history that begins at that state: the rest of its incarnation, then the incarnation that continued from there,
// and so on. A keyed hash of each step's clipped sum is kept: if a step comes out otherwise, it stops before its noise
// is drawn, and that incarnation is not replayed.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shade/base/json.h"
#include "shade/checkpoint/chain.h"
#include "shade/checkpoint/file_lock.h"

namespace shade::checkpoint {

// All that decides a step's bits. If one of them changes, steps that were made are not made again but anew.
struct PrivateRun {
  std::string key;  // which noise key: a digest of it, never the key
  std::string
      exact;   // the rest: first weights, data, world size, strategy, types, threads, program (train/budget/identity.h)
  Json event;  // for the accountant: sampler, rate, sigma, clip norm, divisor, delta

  bool operator==(const PrivateRun&) const = default;
};

struct Origin {
  uint64_t incarnation = 0;
  int64_t step = 0;  // steps made, those of earlier incarnations included
  std::string
      mark{};  // of the incarnation's random bytes: tells it from one of the same number in a copy of the ledger

  bool operator==(const Origin&) const = default;
  Json json() const;                          // for a checkpoint
  static Origin from_json(const Json& json);  // throws UsageError
};

struct Spent {
  Json event;
  int64_t steps = 0;
};

using FreshBytes = std::array<uint8_t, 32>;  // what an incarnation's batches and noise are derived from
using SumDigest = hash::Digest;              // keyed: it tells nothing of the sum but whether it is the same
// For steps whose sum was not hashed (on accelerators). A different sum would go unnoticed, so such a step is never
// repeated.
inline constexpr SumDigest kNotKnown{};

// Steps [begin, end) come from these bytes.
struct Stretch {
  uint64_t incarnation = 0;
  FreshBytes fresh{};
  int64_t begin = 0, end = 0;

  Origin at(int64_t step) const;  // the state after so many steps, begin < step <= end
};

// How steps that are new to the ledger are made.
struct NewSteps {
  std::function<FreshBytes(uint64_t incarnation)> fresh;  // random; of a seeded run a function of the seed
  bool repeatable = false;                                // seeded: go on with the last incarnation's bytes
};

// One process writes (rank 0), one run at a time: the file is locked. Not thread-safe.
class Ledger {
 public:
  // Makes the file if there is none. Reads and proves it all; throws io::FormatError if it is damaged. A last line
  // whose writing was interrupted counts as spent by the incarnation before it, though its flush can't have returned:
  // as many steps as its bytes could have been.
  explicit Ledger(const std::filesystem::path& file);

  bool empty() const { return books_.incarnations.empty(); }  // nothing was ever started

  // Steps below it are in the file and would be made again to the bit by this run from that state. Writes nothing.
  // `from` is the Origin that the loaded checkpoint carries; none: from the first weights. Throws Error if the ledger
  // doesn't know that state: then it is not the ledger of that checkpoint, or it lost what was spent.
  int64_t made(const PrivateRun& run, const std::optional<Origin>& from, bool repeatable = false) const;

  // Before the first step: which bytes each step comes from, in order; the last stretch is open. Steps before it are
  // replayed, those of the last one are new. Its random bytes are on the disk when this returns.
  std::vector<Stretch> start(const PrivateRun& run, const std::optional<Origin>& from, const NewSteps& steps);

  // When a step's clipped sum is complete, before its noise is drawn, in order. When it returns, the step is on the
  // disk. True: it was there before, this is an exact replay. Throws Error if the step was made before with another
  // sum. After an error nothing more is accepted.
  bool spend(int64_t step, const SumDigest& sum);

  std::vector<Spent> spent() const;  // by event, of all runs; a replay counts once

  // Steps by the mark of the incarnation that they were spent in.
  struct Counted {
    std::string mark;
    int64_t steps = 0;
  };
  std::vector<Counted> counted() const;

  // Something beside the steps, an object, that outlives the process as they do: after start(). Null: nothing.
  void remember(const Json& what);
  const Json& remembered() const { return books_.remembered; }

  // The same of a file that may be in use.
  static std::vector<Spent> read(const std::filesystem::path& file);
  static std::vector<Counted> counted_in(const std::filesystem::path& file);
  static Json remembered_in(const std::filesystem::path& file);
  // Whether a checkpoint's state was made by steps of this file, which may be in use.
  static bool knows(const std::filesystem::path& file, const Origin& state);

 private:
  struct Incarnation {
    PrivateRun run;
    FreshBytes fresh{};
    std::optional<Origin> from;
    int64_t head = 0;  // steps [begin, head) were spent
    bool diverged = false;
    std::vector<std::optional<SumDigest>> sums{};  // of those steps; none: its line was torn, or it was not known
    int64_t begin() const { return from ? from->step : 0; }
    int64_t known() const;     // steps [begin, known) have their sums
    std::string mark() const;  // of its bytes
  };
  struct Books {
    std::vector<Incarnation> incarnations;
    uint64_t last = 0;  // the incarnation of the last line
    Json remembered;    // what was remembered last
    void take(const std::string& record, size_t line);
    void take_incarnation(const Json& json, const std::function<void(bool)>& rule);
    Json seal(size_t torn) const;
    std::vector<Spent> spent() const;
    std::vector<Counted> counted() const;
    bool knows(const Origin& state) const;
  };
  static Books books_of(const Chain& chain, const std::filesystem::path& file);
  static Books books_in(const std::filesystem::path& file);
  std::vector<Stretch> replayed(const PrivateRun& run, const std::optional<Origin>& from, bool repeatable) const;
  void append(const Json& record, std::string_view torn = {});
  void write(std::string_view words);

  std::filesystem::path path_;
  FileLock lock_;
  hash::Digest head_{};
  Books books_;
  std::vector<Stretch> stretches_;  // of this process
  int64_t next_ = 0;                // the step that must come
  bool broken_ = false;
};

}  // namespace shade::checkpoint
