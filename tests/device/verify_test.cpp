// `shade verify` on the emulated device: private gradients against their definition, one sample at a time.
#include <gtest/gtest.h>

#include "shade/proof/verify.h"
#include "tests/support/device/device.h"
#include "tests/support/ranks.h"

namespace shade::proof {
namespace {

const bool full = std::getenv("SHADE_FULL_MATRIX") != nullptr;

class DeviceVerify : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, DeviceVerify, testing::Values(1, 2, 4));

TEST_P(DeviceVerify, GradientsAreThoseOfOneSampleAtATime) {
  Verification run;
  run.verify.all = full;
  if (!full) run.verify.strategies = {GetParam() == 1 ? "none" : GetParam() == 2 ? "zero3" : "hsdp"};
  // The default set takes six minutes here.
  if (!full) run.model.model = "qwen2-nano", run.model.task = models::Task::lm;
  if (!full && GetParam() == 2) run.model.model = "dit-nano", run.model.task = models::Task::denoise;
  test::run_ranks(GetParam(), test::As::threads,
                  [&](comm::World& world) {
                    const auto rows = verify(world, run, {});
                    EXPECT_FALSE(rows.empty());
                    for (const auto& row : rows) EXPECT_TRUE(row.pass) << row.json();
                    if (world.rank() == 0) std::printf("%d ranks: %zu rows\n", world.size(), rows.size());
                  },
                  {.backend = comm::BackendKind::nccl});
}

}  // namespace
}  // namespace shade::proof
