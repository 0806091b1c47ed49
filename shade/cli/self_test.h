// What shade doctor tries on this host: the loopback, and a private gradient and step on two ranks of the launcher.
#pragma once

#include <vector>

#include "shade/cli/host_checks.h"

namespace shade::cli {

// One stream over TCP and short messages back and forth, as ranks of one host exchange them; a fraction of a second.
Check loopback_check();

// Runs `shade verify` and `shade train` of this very program as processes of their own, in a temporary folder that is
// removed. About ten seconds on an idle machine.
std::vector<Check> self_test(const profile::Gpus& gpus);

}  // namespace shade::cli
