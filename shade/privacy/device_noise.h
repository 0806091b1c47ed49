// Noise added by the device that holds the sums, instead of by the host: the same bits without copies.
//
// No GPU has run it yet, so nothing does it by itself: the environment variable SHADE_NOISE=device asks for it, and
// before the first use on a device its bits are compared with the host's. What can't be had is refused, never replaced.
#pragma once

#include <ATen/core/Tensor.h>

#include "shade/privacy/noise_lane.h"

namespace shade::privacy {

// Whether sums on this device get their noise there. Throws UsageError if that is asked for and the device has no
// kernel, Error if the kernel's bits are not the host's.
bool noise_on_device(at::Device device);

// To `flat`, fp64 on a device of which noise_on_device() is true, in the order of its current stream.
void add_noise_on_device(const NoiseTask& task, const at::Tensor& flat);

// Decides on the host what the device left: `undecided` is what add_noise_of_lane() returned for each lane.
void decide(const NoiseTask& task, const at::Tensor& undecided, const at::Tensor& flat);

}  // namespace shade::privacy
