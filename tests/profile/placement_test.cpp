// What a run says of its device, from made-up answers of driver and libraries.
#include "shade/profile/placement.h"

#include <gtest/gtest.h>

#include "shade/profile/device.h"
#include "tests/io/scratch.h"

namespace shade::profile {
namespace {

TEST(Placement, SaysWhichGpusAreNotUsedAndWhy) {
  const auto on_cpu = [](const Gpus& gpus) { return describe_device(c10::kCPU, 2, gpus); };
  EXPECT_EQ(on_cpu({}), "cpu");
  EXPECT_EQ(on_cpu({.built = true}), "cpu");
  EXPECT_EQ(on_cpu({.installed = 2}), "cpu; 2 GPUs not used: this build has no CUDA (docs/gpu.md)");
  EXPECT_EQ(on_cpu({.installed = 1, .built = true}),
            "cpu; 1 GPU not used: not visible to this process (CUDA_VISIBLE_DEVICES, the driver's version)");
  EXPECT_EQ(on_cpu({.installed = 8, .visible = 4, .built = true}), "cpu; 4 GPUs not used (--device cuda)");

  const c10::Device second(c10::kCUDA, 1);  // of which this machine knows only the kind
  const auto on_gpu = [&](int visible) { return describe_device(second, 2, {8, visible, true}); };
  EXPECT_EQ(on_gpu(2), "cuda:1 (cuda)");
  EXPECT_EQ(on_gpu(1), "cuda:1 (cuda)") << "one for each task, as Slurm shows them";
  EXPECT_EQ(on_gpu(8), "cuda:1 (cuda); 6 of 8 GPUs that are visible are not used (--ranks 8)");
}

TEST(Placement, CountsTheGpusOfTheDriver) {
  const io::Scratch scratch;
  EXPECT_EQ(installed_gpus(scratch.path()), 0) << "no driver";
  for (const auto* gpu : {"0000:17:00.0", "0000:65:00.0"})
    std::filesystem::create_directories(scratch.path() / "proc/driver/nvidia/gpus" / gpu);
  EXPECT_EQ(installed_gpus(scratch.path()), 2);
}

}  // namespace
}  // namespace shade::profile
