// A program of ranks: what main() does around the work of one rank.
#pragma once

#include <functional>

#include "shade/comm/world.h"

namespace shade::comm {

// Joins the world that the environment describes (shade launch, torchrun, Slurm, mpirun; without one this process is
// the only rank), runs `body` in it, and leaves it. An exception ends the other ranks too, and is printed after the
// program's name. Returns main()'s exit status: 0; 2 for a UsageError; kPeerLostStatus if another rank failed; else
// 1.
int run_program(int argc, char** argv, const std::function<void(World&)>& body);

}  // namespace shade::comm
