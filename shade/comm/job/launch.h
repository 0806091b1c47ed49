// Ranks on this host: started together, ended together.
//
// The launcher hosts the world's store (so that no rank's end takes it away) and states the world in torchrun's
// variables, so that what runs under torchrun runs here, and the other way round. When a rank fails the others are
// ended, and the result says which rank failed first, why, and where everybody was.
#pragma once

#include "shade/comm/job/start.h"

namespace shade::comm {

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
