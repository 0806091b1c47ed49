// How much is asked of a device at a time.
//
// On a CPU an operator costs what it computes: small blocks stay in its caches, and a question about values (nonzero,
// item) is free. On an accelerator every operator is a launch, and a question waits for all that was launched: there
// the same sums are made by few large operators whose shapes follow from the shapes of their inputs alone.
#pragma once

#include <ATen/core/Tensor.h>

#include "shade/base/units.h"

namespace shade::nn {

// True for tensors of an accelerator; not on a CPU. In a dry run they stand for what it says (base/execution.h).
bool few_launches(const at::Tensor& x);

// What one temporary may take there: a 64th of the device's memory, or 1 GiB if its allocator doesn't say how much
// there is. Depends on the kind of device alone, not on what is free.
Bytes largest_block(const at::Tensor& x);

// While it lives, tensors of the CPU and of meta are treated as an accelerator's, in blocks of this size: for tests of
// what accelerators compute. Process-wide, because ranks of a test are threads; not while another thread computes.
class AsAccelerator {
 public:
  explicit AsAccelerator(Bytes block = GiB(1));
  ~AsAccelerator();
  AsAccelerator(const AsAccelerator&) = delete;
  AsAccelerator& operator=(const AsAccelerator&) = delete;

 private:
  Bytes before_;
};

}  // namespace shade::nn
