// What a rank computes with, beside its job: program, libraries, processor, threads. It decides the bits of a step.
#pragma once

#include <c10/core/Device.h>

#include <span>
#include <string>

#include "shade/base/json.h"
#include "shade/comm/group.h"

namespace shade::train {

// The number of threads, libtorch, the processor, the accelerator if there is one (its name and driver, how many are
// visible, NCCL), this very program, the libraries that multiply and add, and the variables by which they choose how.
Json computes_with(at::Device device);

// Those of them that ranks must share: where one rank rounds differently from another, a record that is dealt to
// another rank because of another one is another term of the sum. Of an accelerator's rank the processor is none of
// them, because it rounds nothing; where threads and libraries lie is a rank's own. Collective; throws UsageError on
// every rank.
void require_computing_alike(const comm::Group& control, at::Device device);
Json must_be_shared(at::Device device);

// Of lines of /proc/cpuinfo, what libraries choose kernels by: vendor, family, model, part, cache, and the instructions
// that compute; not what a kernel adds to the flags.
std::string rounding_processor(std::span<const std::string> cpu_lines);

}  // namespace shade::train
