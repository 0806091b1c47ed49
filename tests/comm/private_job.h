// A private run of a second or two whose weights are a function of its options, for tests of what others can do to it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/comm/hosts.h"

namespace shade::test {

// Words of the program for a zero3 run that saves each of its steps below `folder`. Its noise has a seed, so that the
// weights can be compared; everything else is as in a run with a secret key.
std::string private_run(const std::filesystem::path& folder, const std::string& options = "");

// Words of a shell that start one rank per entry of `hosts`, without a launcher, wait for all of them and print
// "statuses" and each rank's exit status. Rank 0's host is 10.77.0.1; ranks of one host are next to each other.
std::string start_ranks(const std::vector<const Host*>& hosts, const std::string& options);

}  // namespace shade::test
