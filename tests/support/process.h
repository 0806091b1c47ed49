// Running a program the way a user would, and looking at what it leaves behind.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shade/base/error.h"
#include "shade/base/units.h"

namespace shade::test {

struct Outcome {
  int status = 0;      // exit status, or 128 + signal
  std::string output;  // standard output and error, interleaved
  Seconds took{0};
};

struct RunOptions {
  std::map<std::string, std::string> environment;
  Seconds limit{60};  // after that it is killed, with status 128 + 9
};

Outcome run(const std::vector<std::string>& command, const RunOptions& options = {});

std::string shade_binary();  // the program under test
std::string source_root();

// Processes whose environment contains KEY=VALUE.
std::vector<int> processes_with(const std::string& key, const std::string& value);

}  // namespace shade::test
