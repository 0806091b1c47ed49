#include "shade/optim/gradient_norm.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "shade/base/error.h"
#include "shade/profile/memory.h"

namespace shade::optim {
namespace {

Slot slot_with(const at::Tensor& values) { return {.name = "w", .master = values, .gradient = values}; }

TEST(GradientNorm, AddsUpInDouble) {
  // In fp32 a sum at 2^26 no longer sees the ones.
  const auto big = at::cat({at::full(1, 8192.0), at::ones(300'001)});
  const std::vector<Slot> slots{slot_with(big), slot_with(at::full(7, 1e-3)), slot_with(at::ones(0)),
                                slot_with(at::ones(1000, at::kMeta))};
  const double small = at::full(1, 1e-3).item<float>();
  EXPECT_DOUBLE_EQ(squared_norm(slots).item<double>(), 67'108'864.0 + 300'001 + 7 * small * small);
}

TEST(GradientNorm, TakesLittleMemory) {
  profile::TensorMemory::track();
  const auto slot = slot_with(at::ones(4 << 20));
  const auto before = profile::TensorMemory::current();
  profile::TensorMemory::reset_peak();
  EXPECT_DOUBLE_EQ(squared_norm({&slot, 1}).item<double>(), 4 << 20);
  EXPECT_LE((profile::TensorMemory::peak() - before).count, MiB(1).count);
}

TEST(GradientNorm, ClipFactor) {
  EXPECT_DOUBLE_EQ(clip_factor(4, 1), 0.25);
  EXPECT_DOUBLE_EQ(clip_factor(1, 1), 1);
  EXPECT_DOUBLE_EQ(clip_factor(0.5, 1), 1);
  EXPECT_DOUBLE_EQ(clip_factor(0, 1), 1);
  EXPECT_THROW(clip_factor(NAN, 1), Error);
  EXPECT_THROW(clip_factor(INFINITY, 1), Error);
  EXPECT_THROW(clip_factor(1, 0), Error);
}

}  // namespace
}  // namespace shade::optim
