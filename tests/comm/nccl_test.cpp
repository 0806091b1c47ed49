// NCCL as far as a machine without a GPU allows: linked, its version known, its absence of devices explained. With
// GPUs the conformance suite is what to run.
#include <gtest/gtest.h>

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
    nccl_device(0);
    FAIL();
  } catch (const UsageError& fault) {
    EXPECT_STREQ(fault.what(),
                 "the nccl backend needs a CUDA device and none is visible; check the driver and CUDA_VISIBLE_DEVICES, "
                 "or use --comm.backend gloo");
  }
}

}  // namespace
}  // namespace shade::comm
