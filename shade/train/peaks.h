// What a run's speed is compared with.
#pragma once

#include <c10/core/ScalarType.h>

#include "shade/comm/group.h"

namespace shade::train {

// FLOP/s of all ranks together; 0: not known. `stated` is what the maker of the hardware promises: nothing that can be
// read of a CPU says how many products its units start per cycle, so it is given (--peak-gflops) or MFU is not
// reported.
struct Peaks {
  double stated = 0;
  double product = 0;  // the best matrix product that was timed (profile/peak_flops.h)
};

// Times a product on the device, on all ranks at once, if no peak is stated. Collective.
Peaks peaks_of(const comm::Group& group, double stated_gflops, at::ScalarType type, at::Device device);

}  // namespace shade::train
