// What a rank computes with, beside its job: program, libraries, processor, threads. It decides the bits of a step.
#pragma once

#include <c10/core/Device.h>

#include "shade/base/json.h"

namespace shade::train {

// The number of threads, libtorch, the processor, the accelerator if there is one (its name and driver, how many are
// visible, NCCL), this very program, and the variables by which libraries choose how they compute.
Json computes_with(at::Device device);

// Those of them that ranks must share, in short words: where one rank rounds differently from another, a record that is
// dealt to another rank because of somebody else's is another term of the sum. On an accelerator, the processor and its
// threads round nothing.
Json must_be_shared(at::Device device);

}  // namespace shade::train
