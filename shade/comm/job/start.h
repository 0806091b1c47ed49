// One start of all ranks, watched until the last of them is gone. What launch() does, without starting again.
#pragma once

#include "shade/comm/job/launch.h"

namespace shade::comm {

// `restart` is how often they were started before; the ranks are told.
LaunchResult start_ranks(const LaunchOptions& options, int restart);

}  // namespace shade::comm
