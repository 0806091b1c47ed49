// Copies are counted by direction and pinning; non-blocking ones end when the host synchronises.
#include <ATen/ATen.h>

#include "tests/device/planted.h"

namespace shade::test::device {
namespace {

class DeviceCopies : public DeviceTest {};

TEST_F(DeviceCopies, AreCounted) {
  const auto pageable = at::ones({256}), pinned = at::ones({256}).pin_memory();
  ASSERT_TRUE(pinned.is_pinned());
  ASSERT_FALSE(pageable.is_pinned());
  reset_counters(0);
  auto x = pageable.to(shadow());
  EXPECT_EQ(counters(0).to_device_pageable.bytes, 1024);
  EXPECT_EQ(counters(0).synchronisations, 1);
  x = pinned.to(shadow(), /*non_blocking=*/true);
  EXPECT_EQ(counters(0).to_device_pinned.bytes, 1024);
  EXPECT_EQ(counters(0).synchronisations, 1);
  x.cpu();
  EXPECT_EQ(counters(0).to_host_pageable.count, 1);
  EXPECT_EQ(counters(0).synchronisations, 2);
  x.clone();
  EXPECT_EQ(counters(0).on_device.bytes, 1024);
  EXPECT_EQ(counters(0).launches, 1);
  pinned.copy_(x);
  EXPECT_EQ(counters(0).to_host_pinned.count, 1);
}

TEST_F(DeviceCopies, PinnedMemoryOfAnotherShapeGoesThroughPageable) {
  const auto pinned = at::ones({16, 16}).pin_memory();
  reset_counters(0);
  pinned.t().to(shadow(), true);
  pinned.to(at::TensorOptions(at::kBFloat16).device(shadow()), true);
  EXPECT_EQ(counters(0).to_device_pinned.count, 0);
  EXPECT_EQ(counters(0).to_device_pageable.count, 2);
}

TEST_F(DeviceCopies, SynchronisationsAreCounted) {
  const auto x = at::ones({8}).to(shadow());
  reset_counters(0);
  x.sum().item<float>();
  EXPECT_EQ(counters(0).synchronisations, 1);
  at::nonzero(x);
  EXPECT_EQ(counters(0).synchronisations, 2);
  x.index({at::Tensor(x > 0)});
  EXPECT_EQ(counters(0).synchronisations, 3);
  guard().synchronizeDevice(0);
  EXPECT_EQ(counters(0).synchronisations, 4);
  x.mul(2);
  EXPECT_EQ(counters(0).synchronisations, 4);
}

TEST_F(DeviceCopies, ArriveWhenTheHostSynchronises) {
  const auto x = at::ones({8}).to(shadow());
  const auto host = at::zeros({8}).pin_memory();
  host.copy_(x, /*non_blocking=*/true);
  EXPECT_TRUE(at::isnan(host).all().item<bool>());  // not there yet: what a reader would find is not the result
  const auto back = host.to(shadow(), true);        // the stream itself keeps the order
  guard().synchronizeStream(here());
  EXPECT_EQ(host.sum().item<float>(), 8);
  EXPECT_EQ(back.sum().item<float>(), 8);
}

TEST_F(PlantedFault, PageableCopyThatPretendsToBeAsynchronous) {
  const RefusePageable refuse;
  EXPECT_TRUE(refused(
      [] { at::ones({8}).to(shadow(), true); },
      {"aten::copy_ on stream 0 of shadow:0 between storage #", "and pageable memory of the host isn't asynchronous"}));
  EXPECT_EQ(fault_of([] { at::ones({8}).pin_memory().to(shadow(), true); }), "no fault was seen");
  EXPECT_EQ(fault_of([] { at::ones({8}).to(shadow()); }), "no fault was seen");  // says that it blocks
}

TEST_F(PlantedFault, PinnedMemoryChangedUnderACopy) {
  const auto batch = at::ones({8}).pin_memory();
  const auto x = batch.to(shadow(), true);
  batch.fill_(2);
  EXPECT_TRUE(refused(
      [] { guard().synchronizeStream(here()); },
      {"aten::copy_ on stream 0 of shadow:0: the host changed pinned storage #", "while it was copied to the device"}));
}

TEST_F(PlantedFault, PinnedMemoryUsedByTwoStreams) {
  const auto host = at::ones({8}).pin_memory();
  const auto x = at::ones({8}).to(shadow());
  host.copy_(x, true);
  const auto side = side_stream();
  const c10::StreamGuard on(side);
  EXPECT_TRUE(refused([&] { host.to(shadow(), true); },
                      {"reads pinned storage #", "not ordered after aten::copy_ on stream 0"}));
  guard().synchronizeDevice(0);
}

}  // namespace
}  // namespace shade::test::device
