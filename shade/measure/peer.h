// A step of the same size in eager PyTorch, in its own processes, interleaved with ours (bench/peers).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shade/base/json.h"
#include "shade/base/temporary_folder.h"
#include "shade/base/units.h"

namespace shade::measure {

// One training job of PyTorch. Between steps its processes sleep. Not thread-safe.
class Peer {
 public:
  struct Options {
    std::vector<std::string> arguments;  // of step_server.py: model, sizes, dtype, --threads, --what, --strategy
    int ranks = 1;                       // one process each; more than one need a --strategy
  };

  // Starts the processes and waits until all are ready. Throws UsageError if the peers aren't installed, Error if a
  // process ends.
  static Peer start(const Options& options);
  Peer(Peer&&) noexcept;
  Peer& operator=(Peer&&) noexcept;
  ~Peer();

  Millis step();       // of the slowest rank
  Bytes peak_bytes();  // of the tensors of one step, on the rank that needs most
  void stop();         // ends the processes; so does the destructor

 private:
  class Process;

  Peer();
  std::vector<Json> ask(const std::string& command);
  std::vector<Json> answers();

  std::unique_ptr<TemporaryFolder> folder_;  // where the ranks meet
  std::vector<std::unique_ptr<Process>> processes_;
};

// Ours beside theirs: a row of every result file that compares.
struct PeerRow {
  std::string work;
  Millis ours, peer;
  Bytes ours_peak, peer_peak;

  Json json() const;
};

}  // namespace shade::measure
