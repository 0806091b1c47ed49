// One start of all ranks, watched until the last of them is gone. What launch() does, without starting again.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shade/base/units.h"

namespace shade::comm {

struct LaunchOptions {
  int ranks = 1;
  std::vector<std::string> command;                // argv; [0] is looked up in PATH
  std::map<std::string, std::string> environment;  // added to ours
  Seconds peer_timeout{10};                        // a rank that stays stopped this long counts as failed
  Seconds grace{2};                                // between SIGTERM and SIGKILL for the others
  bool prefix = true;                              // "[2] " before every line of rank 2
  bool pass_rank0 = false;  // rank 0 writes to our own terminal, unprefixed: it speaks for the job
  int max_restarts = 0;     // all ranks are started again after a failure so often
  int min_ranks = 0;        // with one rank fewer each time, down to this; 0: with the same number
};

struct RankFailure {
  int rank = -1;
  std::string reason;  // "killed by signal 9 (SIGKILL)", "exit status 1: <its last words>"
  std::string told;    // why, as it told the other ranks; empty: it did not
};

struct LaunchResult {
  int status = 0;  // 0: all ranks succeeded; else the first failure's exit status, or 128 + signal
  std::optional<RankFailure> first;
  std::string positions;  // where the ranks were; empty if they never joined a world
  int restarts = 0;       // made
};

// `restart` is how often they were started before; the ranks learn it from their environment.
LaunchResult start_ranks(const LaunchOptions& options, int restart);

}  // namespace shade::comm
