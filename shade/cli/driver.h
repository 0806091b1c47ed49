// Verbs that start processes of their own, as shade compare does, under torchrun, Slurm or mpirun.
#pragma once

#include <functional>

namespace shade::cli {

// Called when the command line has been read, by every rank. Rank 0 of the launcher's ranks then leaves their world and
// runs `drive` with the number of ranks that the launcher has on this host; the others wait and end with the status of
// rank 0, or with 1 if it died. Without a launcher the number is
// 1. Throws UsageError if the launcher has ranks on other hosts.
int driven_by_first_rank(const char* verb, const std::function<int(int ranks)>& drive);

}  // namespace shade::cli
