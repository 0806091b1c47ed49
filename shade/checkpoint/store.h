// Saving a run, so that it survives the end of any of its processes at any moment.
//
//   Store store(world.control("checkpoint"), {.folder = "run/checkpoints", .keep = 3});
//   if (auto found = load_newest(store, control, runtime, optimizer)) state = found->manifest.caller;
//   for (...) { step.run(...); if (due) store.save_async(runtime, optimizer, state); }
//   store.wait();
//
// A save, on every rank: its pieces -> its files in a temporary folder, flushed -> all ranks agree that all files are
// there -> rank 0 writes the manifest, renames the folder, replaces LATEST (folder.h) -> all agree on that -> old
// checkpoints go. Until LATEST is replaced the checkpoint before is the latest; a failure on any rank is thrown on
// every rank, with the same words (agreement.h).
//
// Frozen weights are in a separate file, written once: later checkpoints have a link to it (a second name for the same
// bytes), so each is whole by itself and the large part of a model with adapters costs nothing again. Frozen weights
// therefore don't change while a Store lives, but by its load().
#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "shade/checkpoint/file_lock.h"
#include "shade/checkpoint/folder.h"
#include "shade/checkpoint/manifest.h"
#include "shade/checkpoint/owned.h"
#include "shade/checkpoint/reader.h"
#include "shade/comm/group.h"
#include "shade/optim/optimizer.h"
#include "shade/shard/runtime.h"

namespace shade::checkpoint {

// All members but folder(), latest(), list() and remove_first() are collective: every rank calls them in the same
// order, between two steps.
class Store {
 public:
  struct Options {
    std::filesystem::path folder;  // seen by all ranks
    int64_t keep = 3;              // checkpoints; at least 1
  };

  // `group` has all ranks and no other user: the thread that writes talks on it while the run goes on. Makes the
  // folder; rank 0 locks it and removes what an interrupted save left.
  Store(comm::Group group, Options options);
  ~Store();  // waits for what is being written; an error that no call has thrown is logged
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // `caller` comes back from load(). Returns when the checkpoint would survive a power cut.
  void save(shard::Runtime& runtime, optim::Optimizer& optimizer, const Json& caller);

  // Copies what this rank will write of trained weights (its part of the state, once more in memory from the first time
  // on) and returns; a thread does the rest.
  // Waits for the save before it. An error shows at the next call.
  void save_async(shard::Runtime& runtime, optim::Optimizer& optimizer, const Json& caller);

  void wait();  // until the last save is committed; throws what went wrong with it

  struct Found {
    std::filesystem::path folder;
    std::optional<hash::Digest> manifest;  // as LATEST has it
  };
  const std::filesystem::path& folder() const { return options_.folder; }
  std::optional<Found> latest() const;              // nothing: there is no LATEST
  std::vector<std::filesystem::path> list() const;  // oldest first

  // After wait(). Another checkpoint than the latest may be given by its folder alone.
  Manifest load(const Found& found, shard::Runtime& runtime, optim::Optimizer& optimizer);

  // A checkpoint of this folder that is not whole, or not of this run any more: when one has to go, it is among the
  // first. Not collective.
  void remove_first(const std::filesystem::path& folder);

 private:
  struct Job {
    Entry entry;
    Manifest manifest;  // its files are filled in when they are written
    std::vector<Owned> pieces, frozen;
  };
  struct Frozen {
    Entry entry;
    SavedFile file;
  };
  size_t rank() const { return static_cast<size_t>(group_.rank()); }
  Job begin(shard::Runtime& runtime, optim::Optimizer& optimizer, const Json& caller, bool copy);
  void write(Job job);
  SavedFile write_frozen(const Job& job) const;
  void finish(const Job& job);

  comm::Group group_;
  Options options_;
  Folder folder_;
  std::optional<FileLock> lock_;  // rank 0's
  std::vector<Entry> first_to_go_;
  std::optional<Frozen> frozen_;  // this rank's, in the last checkpoint of this Store
  at::Tensor copy_;               // what save_async copies into, kept for the next time
  std::thread writer_;
  std::exception_ptr fault_;  // the writer's; read after it was joined
};

// A checkpoint into a running world: any number of ranks, any strategy, any wrap. To the bit.

// Collective over `group`, all ranks of the runtime; all ranks must see the folder. Each rank reads the elements it
// owns and proves the pieces they lie in. Only when every rank has proven all of its own is the first live tensor
// written: after an error, which all ranks throw alike, weights and optimizer are as they were. The model and the kind
// of optimizer must be the saved ones. Returns the manifest, with what the saver had to say.
Manifest load(const std::filesystem::path& folder, shard::Runtime& runtime, optim::Optimizer& optimizer,
              const comm::Group& group, const std::optional<hash::Digest>& expected = {});

// The newest checkpoint of a folder that is whole, whatever LATEST says or has become of it.
struct Newest {
  std::filesystem::path folder;
  Manifest manifest;
  std::vector<std::string> faults;  // why this one: of LATEST, and of each checkpoint that should have come first
};

// Whether a checkpoint is one of those to choose from, by what the caller had saved with it; asked on rank 0.
using Belongs = std::function<bool(const std::filesystem::path& folder, const Json& caller)>;

// Collective over `group`; rank 0 says in which order. Loads what LATEST names. If LATEST is missing or damaged, or a
// file of that checkpoint is missing, cut or changed on any rank, the others that belong are tried, newest first: each
// is proven before a live tensor is written. Empty: nothing was ever committed. Throws Error if checkpoints
// are there and none is whole, naming each with its fault; and whatever else goes wrong (memory, a disk that doesn't
// answer, another model's checkpoint) as it is: it is no proof of damage. Damaged ones, and those that don't belong,
// are the first that later saves remove.
std::optional<Newest> load_newest(Store& store, const comm::Group& group, shard::Runtime& runtime,
                                  optim::Optimizer& optimizer, const Belongs& belongs = {});

}  // namespace shade::checkpoint
