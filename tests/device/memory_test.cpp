// Memory that the host can't touch, reused by stream.
#include <ATen/ATen.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "tests/device/planted.h"

namespace shade::test::device {
namespace {

class DeviceMemory : public DeviceTest {};

at::Tensor ones(int64_t count) { return at::ones({count}, shadow()); }

TEST_F(DeviceMemory, NewAndFreedMemoryIsPoisoned) {
  const void* address = nullptr;
  {
    const auto x = ones(100);
    address = x.data_ptr();
  }
  const auto again = at::empty({100}, shadow());
  EXPECT_EQ(again.data_ptr(), address);  // reused at once, on the same stream
  EXPECT_TRUE(at::isnan(again).all().item<bool>());
  EXPECT_TRUE(at::isnan(at::empty({12345}, shadow())).all().item<bool>());
}

TEST_F(DeviceMemory, IsReusedByTheStreamItWasAllocatedOn) {
  const void* address = nullptr;
  const auto side = side_stream();
  {
    const auto x = ones(3000);
    address = x.data_ptr();
  }
  {
    const c10::StreamGuard on(side);
    EXPECT_NE(at::empty({3000}, shadow()).data_ptr(), address);
  }
  EXPECT_EQ(at::empty({3000}, shadow()).data_ptr(), address);
}

TEST_F(DeviceMemory, RecordStreamHoldsItBack) {
  const auto side = side_stream();
  auto x = ones(5000);
  const void* address = x.data_ptr();
  wait_for(side, here());
  {
    const c10::StreamGuard on(side);
    x.sum();
  }
  x.record_stream(side);
  x.reset();
  const auto other = ones(5000);
  EXPECT_NE(other.data_ptr(), address);
  guard().synchronizeStream(side);
  EXPECT_EQ(ones(5000).data_ptr(), address);
}

TEST_F(DeviceMemory, IsCountedAndLimited) {
  auto& allocator = *c10::getDeviceAllocator(c10::kPrivateUse1);
  allocator.emptyCache();
  const auto in_use = [&] { return allocator.getDeviceStats(0).allocated_bytes[0].current; };
  const auto before = in_use();
  {
    const auto x = ones(1 << 20);
    EXPECT_EQ(in_use() - before, 4 << 20);
  }
  EXPECT_EQ(in_use(), before);
  const auto x = ones(100);
  set_capacity(size_t{64} << 20);
  EXPECT_THROW(ones(32 << 20), c10::OutOfMemoryError);
  const auto [unused, all] = allocator.getMemoryInfo(0);
  EXPECT_EQ(all, size_t{64} << 20);
  EXPECT_LT(unused, all);
  set_capacity(size_t{8} << 30);
}

TEST_F(PlantedFault, HostTouch) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const auto x = ones(2);
        std::fprintf(stderr, "%g\n", static_cast<double>(x.const_data_ptr<float>()[0]));
      },
      "the host touched memory of a device: storage #[0-9]+ \\(8 bytes of shadow:0, allocated on stream 0 of shadow:0");
}

TEST_F(PlantedFault, UseAfterFree) {
  auto x = ones(700);
  const auto kept = at::from_blob(x.data_ptr(), {700}, at::TensorOptions(at::kFloat).device(shadow()));
  EXPECT_EQ(kept.sum().item<float>(), 700);
  x.reset();
  EXPECT_TRUE(refused([&] { kept.sum(); }, {"aten::sum"}));
  EXPECT_TRUE(refused([&] { kept.sum(); }, {"on stream 0 of shadow:0 reads freed storage #"}));
}

TEST_F(PlantedFault, UsedOnAStreamThatDidntWaitForTheAllocation) {
  ones(900);  // whose memory comes next, and which may still be written
  const auto x = at::empty({900}, shadow());
  const auto side = side_stream();
  const c10::StreamGuard on(side);
  EXPECT_TRUE(refused([&] { x.zero_(); },
                      {"aten::zero_ on stream ", "writes storage #", "wait for the stream it was allocated on"}));
}

TEST_F(PlantedFault, FreedWhileAnotherStreamReads) {
  const auto side = side_stream();
  auto x = ones(900);
  wait_for(side, here());
  {
    const c10::StreamGuard on(side);
    x.sum();
  }
  x.reset();  // without record_stream: the next allocation of stream 0 gets the memory
  EXPECT_TRUE(refused([] { ones(900); }, {"on stream 0 of shadow:0 writes storage #", "whose memory was storage #",
                                          " may still read it: it was freed too early", "aten::sum"}));
}

}  // namespace
}  // namespace shade::test::device
