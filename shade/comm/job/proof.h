// Authentication of connections that a library has opened (NCCL; Gloo, for comparisons): the first collective of the
// group carries every rank's proof that it has the job secret, sealed for its place in the group. Connections of our
// own are authenticated one by one, before they carry anything (comm/wire/handshake.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "shade/base/units.h"
#include "shade/comm/job/secret.h"
#include "shade/comm/transport.h"

namespace shade::comm {

struct ProofOptions {
  std::string group;              // its name, for messages
  int rank = 0;                   // within the group
  std::vector<int> global_ranks;  // of its members
  Secret secret;                  // of this group in this start of the world
  c10::Device device = c10::kCPU;
  Seconds limit{60};
  std::function<void()> interrupt = [] {};  // called now and then; throws to end the wait
};

// Throws CommError if a rank's proof is wrong, or not there within the limit.
void prove(Transport& transport, const ProofOptions& options);

}  // namespace shade::comm
