// NCCL as far as a machine without a GPU allows: linked, its version known, its absence of devices explained. With
// GPUs the conformance suite is what to run.
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "shade/comm/backends/backends.h"
#include "shade/comm/errors.h"

namespace shade::comm {
namespace {

TEST(Nccl, IsInThisBuild) {
  EXPECT_TRUE(nccl_built());
  EXPECT_EQ(nccl_version(), "2.30.7");
}

TEST(Nccl, WithoutAGpuItSaysSo) {
  if (nccl_devices() > 0) GTEST_SKIP() << "this machine has GPUs";
  try {
    make_nccl(c10::make_intrusive<c10d::HashStore>(), 0, 1, {.name = "g"});
    FAIL();
  } catch (const UsageError& fault) {
    EXPECT_STREQ(fault.what(),
                 "the nccl backend needs a CUDA device and none is visible; check the driver and CUDA_VISIBLE_DEVICES, "
                 "or use --comm.backend gloo");
  }
}

}  // namespace
}  // namespace shade::comm
