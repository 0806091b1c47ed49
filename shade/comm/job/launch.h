// Ranks on this host: started together, ended together.
//
// The launcher hosts the world's store (so that no rank's end takes it away) and states the world in torchrun's
// variables, so that what runs under torchrun runs here, and the other way round. When a rank fails the others are
// ended, and the result says which rank failed first, why, and where the others were.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shade/base/units.h"

namespace shade::comm {

// One start of all ranks, watched until the last of them is gone. What launch() does, without starting again.
struct LaunchOptions {
  int ranks = 1;
  std::vector<std::string> command;                // argv; [0] is looked up in PATH
  std::map<std::string, std::string> environment;  // added to ours
  Seconds peer_timeout{10};                        // a rank that stays stopped this long counts as failed
  Seconds grace{2};                                // between SIGTERM and SIGKILL for the others
  bool prefix = true;                              // "[2] " before every line of rank 2
  bool pass_rank0 = false;  // rank 0 writes to our own terminal, unprefixed: it speaks for the job
  int max_restarts = 0;     // how often all ranks are started again after a failure
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

// Blocks until all ranks are gone. SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 are passed on to the ranks; Ctrl-Z stops
// and continues them with us. Changes the calling thread's signal mask while it runs: call it from a program's main
// thread. Asked to end a second time (SIGINT, SIGTERM, SIGHUP, at least half a second after the first), ranks that are
// left a second later are killed. If we are killed, the kernel ends the ranks.
//
// Ranks that are started again learn how often from TORCHELASTIC_RESTART_COUNT. Not started again: ranks that were
// asked to end, and those whose first failure was a wrong option or file (exit status 2), which would be as wrong
// again.
LaunchResult launch(const LaunchOptions& options);

}  // namespace shade::comm
