// What decides the bits of a step, besides (incarnation key, step).
#pragma once

#include <optional>
#include <string>

#include "shade/base/json.h"
#include "shade/comm/group.h"
#include "shade/privacy/key.h"
#include "shade/train/step/job.h"

namespace shade::train {

// Two jobs of equal identity that make the same step of the same run make it to the bit. It is a hash over all ranks of
// what each computes with: the job in words (train/step/job.h), the content of the records and of the first weights,
// the number of threads, this very program, libtorch, the processor, the accelerator if there is one (its name and
// driver, how many are visible, NCCL), and the variables by which libraries choose how they compute (sums are rounded
// in an order that depends on all of them). On an accelerator equal identities promise less: sums there are made in an
// order that changes from run to run, so no step is replayed (train/budget/history.h, docs/gpu.md). The micro-batch is
// not in it where the job finds it later. Collective. The weights are those that training starts from: call it before a
// checkpoint is loaded.
struct Identity {
  std::string digest;
  Json parts;  // of this rank, before hashing
};
Identity identity_of(Job& job);

// The key of a job that keeps none on disk.

// Rank 0's, from the operating system, on every rank; with a seed a function of that, and protecting nothing.
// Collective.
privacy::NoiseKey agreed_key(const comm::Group& group, std::optional<uint64_t> seed);

}  // namespace shade::train
