#include "shade/nn/device.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "shade/nn/batch.h"
#include "shade/nn/function.h"

namespace shade::nn {
namespace {

TEST(Device, OnTheCpuNothingIsCopiedPinnedOrWaitedFor) {
  use_device(at::kCPU);
  const auto tensor = at::arange(3);
  EXPECT_TRUE(on_device(tensor, at::kCPU).is_same(tensor));
  Batch batch;
  batch.ids_BT = at::ones({2, 3}, at::kLong);
  batch.fields["own"] = at::ones({2});
  const auto there = batch.to(at::kCPU);
  EXPECT_TRUE(there.ids_BT.is_same(batch.ids_BT));
  EXPECT_TRUE(there.fields.at("own").is_same(batch.fields.at("own")));
  EXPECT_FALSE(host_empty(4, at::kFloat, at::kCPU).is_pinned());
  Issued(at::kCPU).wait();
}

TEST(Device, APlanIsMadeOfShapes) {
  const auto plan = on_device(at::arange(3), at::kMeta);
  EXPECT_TRUE(plan.is_meta());
  EXPECT_EQ(plan.sizes(), at::IntArrayRef({3}));
  EXPECT_FALSE(host_empty(4, at::kFloat, at::kMeta).is_pinned());
  EXPECT_TRUE(anchor(at::kMeta).is_meta());
  EXPECT_TRUE(anchor(at::kCPU).requires_grad());
}

}  // namespace
}  // namespace shade::nn
