// Experiments in processes of their own: a row that fails, hangs or takes too much memory is a result, not an end.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "shade/base/json.h"
#include "shade/base/units.h"
#include "shade/measure/load.h"

namespace shade::measure {

struct IsolatedRun {
  std::vector<std::string> command;
  std::filesystem::path log;  // its standard output and error
  Seconds limit{3600};
  Bytes memory{0};  // of each of its processes (RLIMIT_DATA); 0: no limit
};

struct IsolatedOutcome {
  bool ok = false;
  std::string reason;  // if not: what its log says, or how it ended
  bool out_of_memory = false;
  MachineLoad load;
};

// Blocks. The command and all its children are gone when it returns, and also if this process is interrupted.
IsolatedOutcome run_isolated(const IsolatedRun& run);

}  // namespace shade::measure
