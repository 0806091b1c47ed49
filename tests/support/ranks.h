// One test body, run by several ranks: as threads of this process (fast) or as processes of their own (true).
#pragma once

#include <functional>

#include "shade/comm/world.h"

namespace shade::test {

enum class As { threads, processes };

// Every rank runs `body` in a connected world, over Gloo unless `config` says otherwise. A gtest assertion or an
// exception on any rank fails the test.
//
// processes: this very test is executed again, once per rank, under comm::launch; there the call runs the body on its
// own rank. So a test makes at most one such call, and does nothing else that must not happen W + 1 times.
void run_ranks(int ranks, As as, const std::function<void(comm::World&)>& body,
               const comm::CommConfig& config = {.backend = comm::BackendKind::gloo});

}  // namespace shade::test
