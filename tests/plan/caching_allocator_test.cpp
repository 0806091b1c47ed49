// Every sequence is followed by hand from the rules in the header.
#include "shade/plan/caching_allocator.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <random>

#include "shade/profile/memory.h"

namespace shade::plan {
namespace {

constexpr Bytes kLarge = GiB(1);

// Storages are told apart by number.
class Device {
 public:
  explicit Device(Bytes capacity = kLarge) : allocator(capacity) {}
  bool take(int64_t number, Bytes size) { return allocator.allocate(name(number), size); }
  void give(int64_t number) { allocator.free(name(number)); }

  CachingAllocator allocator;

 private:
  static const void* name(int64_t number) {
    static char names[4096];
    return names + number;
  }
};

TEST(CachingAllocator, RoundsAndPools) {
  Device device;
  EXPECT_TRUE(device.take(1, {1}));
  EXPECT_EQ(device.allocator.allocated(), Bytes{512});
  EXPECT_EQ(device.allocator.reserved(), MiB(2));
  EXPECT_TRUE(device.take(2, {513}));
  EXPECT_EQ(device.allocator.allocated(), Bytes{512 + 1024});
  EXPECT_EQ(device.allocator.reserved(), MiB(2)) << "the same segment";
  EXPECT_TRUE(device.take(3, MiB(1)));
  EXPECT_EQ(device.allocator.reserved(), MiB(2)) << "1 MiB is small";
  EXPECT_TRUE(device.take(4, MiB(1)));
  EXPECT_EQ(device.allocator.reserved(), MiB(4)) << "less than 1 MiB of the first was left";
  EXPECT_TRUE(device.take(5, Bytes{MiB(1).count + 1}));
  EXPECT_EQ(device.allocator.reserved(), MiB(24)) << "above it, of the large pool";
  EXPECT_TRUE(device.take(6, MiB(10)));
  EXPECT_EQ(device.allocator.reserved(), MiB(24)) << "from the rest of the 20 MiB";
  EXPECT_TRUE(device.take(7, Bytes{MiB(10).count + 1}));
  EXPECT_EQ(device.allocator.reserved(), MiB(36)) << "a segment of its own, of 12 MiB";
}

TEST(CachingAllocator, SplitsOnlyWhatIsWorthIt) {
  Device device;
  device.take(1, MiB(11));  // a segment of 12 MiB: 1 MiB is left over, and not more than 1 MiB
  EXPECT_EQ(device.allocator.allocated(), MiB(12));
  device.take(2, Bytes{MiB(13).count - 1024});  // of 14 MiB: 1 MiB and 1 KiB are left, a block of their own
  EXPECT_EQ(device.allocator.allocated(), Bytes{MiB(25).count - 1024});
  EXPECT_EQ(device.allocator.reserved(), MiB(26));
}

TEST(CachingAllocator, TakesTheSmallestThatFits) {
  Device device;
  device.take(1, MiB(30));
  device.take(2, MiB(16));
  device.take(3, MiB(14));
  for (const int64_t number : {1, 2, 3}) device.give(number);
  EXPECT_EQ(device.allocator.reserved(), MiB(60)) << "what is free stays reserved";
  device.take(4, MiB(15));
  EXPECT_EQ(device.allocator.allocated(), MiB(16)) << "the one of 16 MiB, whole: 1 MiB is not split off";
  device.take(5, MiB(20));
  device.take(6, MiB(10));
  EXPECT_EQ(device.allocator.reserved(), MiB(60)) << "20 of 30, then the other 10 of it: smaller than 14";
  EXPECT_EQ(device.allocator.allocated(), MiB(46));
  device.take(7, MiB(14));
  EXPECT_EQ(device.allocator.reserved(), MiB(60));
}

TEST(CachingAllocator, JoinsNeighbours) {
  Device device;
  for (const int64_t number : {1, 2, 3, 4}) device.take(number, MiB(5));  // one segment of 20 MiB
  EXPECT_EQ(device.allocator.reserved(), MiB(20));
  device.give(1);
  device.give(3);
  device.take(5, MiB(8));
  EXPECT_EQ(device.allocator.reserved(), MiB(40)) << "two holes of 5 MiB are no place for 8";
  device.give(2);
  device.take(6, MiB(15));
  EXPECT_EQ(device.allocator.reserved(), MiB(40)) << "three holes in a row are one";
}

TEST(CachingAllocator, FragmentsAcrossSegments) {
  Device device;
  device.take(1, MiB(12));
  device.take(2, MiB(12));
  device.give(1);
  device.give(2);
  device.take(3, MiB(24));
  EXPECT_EQ(device.allocator.reserved(), MiB(48)) << "two segments of 12 MiB are never one of 24";
  EXPECT_EQ(device.allocator.peak_allocated(), MiB(24));
}

TEST(CachingAllocator, GivesBackWhatIsFreeWhenMemoryRunsOut) {
  Device device(MiB(40));
  device.take(1, MiB(12));
  device.take(2, MiB(12));
  device.give(1);
  device.give(2);
  EXPECT_TRUE(device.take(3, MiB(24)));
  EXPECT_EQ(device.allocator.reserved(), MiB(24));
  EXPECT_EQ(device.allocator.peak_reserved(), MiB(24));
  EXPECT_FALSE(device.take(4, MiB(18)));
  EXPECT_TRUE(device.take(5, MiB(16))) << "a failure leaves it usable";
  EXPECT_EQ(device.allocator.peak_reserved(), MiB(40));
}

// Blocks tile their segments: whatever happens, all that was taken and given leaves nothing.
TEST(CachingAllocator, KeepsItsBooks) {
  std::mt19937_64 random(3);
  Device device(GiB(64));
  std::vector<int64_t> sizes(1000);
  int64_t wanted = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto number = static_cast<int64_t>(random() % 1000);
    auto& size = sizes[static_cast<size_t>(number)];
    if (size > 0) {
      device.give(number);
      wanted -= std::exchange(size, 0);
    } else {
      size = static_cast<int64_t>(random() % (uint64_t{1} << (10 + random() % 15))) + 1;
      ASSERT_TRUE(device.take(number, {size}));
      wanted += size;
    }
    ASSERT_GE(device.allocator.allocated().count, wanted);
    ASSERT_GE(device.allocator.reserved(), device.allocator.allocated());
  }
  for (int64_t number = 0; number < 1000; ++number) device.give(number);
  EXPECT_EQ(device.allocator.allocated(), Bytes{0});
  EXPECT_TRUE(device.take(0, Bytes{GiB(64).count - GiB(1).count})) << "all segments could be given back";
}

TEST(CachingAllocator, ReplaysARecordOfMetaTensors) {
  profile::TensorMemory::track_meta();
  const auto options = at::TensorOptions(at::kMeta).dtype(at::kByte);
  const auto memory = std::make_shared<profile::MemoryBook>();
  memory->record_allocations();
  Execution execution{.memory = memory};
  const ExecutionScope scope(execution);
  {
    const auto first = at::empty({MiB(12).count}, options), second = at::empty({MiB(12).count}, options);
  }
  const auto third = at::empty({MiB(24).count}, options);
  const auto changes = memory->take_allocations();
  ASSERT_EQ(changes.size(), 5u);
  EXPECT_EQ(changes[0].size, MiB(12));
  EXPECT_EQ(changes[2].size, Bytes{0});
  EXPECT_EQ(peak_reserved(changes, GiB(1)), MiB(48));
  EXPECT_EQ(peak_reserved(changes, MiB(40)), MiB(24));
  EXPECT_EQ(peak_reserved(changes, MiB(20)), MiB(48)) << "doesn't fit: what a larger device would have reserved";
}

}  // namespace
}  // namespace shade::plan
