#include "shade/plan/page_heap.h"

#include <gtest/gtest.h>

#include <array>

namespace shade::plan {
namespace {

// Storages by number.
const void* heap_storage(size_t number) {
  static const std::array<char, 16> places{};
  return &places.at(number);
}

TEST(PageHeap, TouchesWhatIsRequestedAndNotTheRestOfItsClass) {
  PageHeap heap;
  heap.allocate(heap_storage(0), Bytes{KiB(33).count});  // an extent of 40 KiB and a page
  EXPECT_EQ(heap.resident(), KiB(36));
  heap.allocate(heap_storage(1), KiB(64));
  EXPECT_EQ(heap.resident(), KiB(100));
}

TEST(PageHeap, PagesStayAndAreUsedAgain) {
  PageHeap heap;
  heap.allocate(heap_storage(0), MiB(4));
  heap.free(heap_storage(0));
  EXPECT_EQ(heap.resident(), MiB(4));
  heap.allocate(heap_storage(1), MiB(3));
  EXPECT_EQ(heap.resident(), MiB(4));
  heap.free(heap_storage(1));
  heap.purge();
  EXPECT_EQ(heap.resident(), Bytes{});
  EXPECT_EQ(heap.peak_resident(), MiB(4));
}

// A hole between two that are in use is too small for a larger one, until its neighbour is freed too.
TEST(PageHeap, NeighboursAreJoined) {
  PageHeap heap;
  for (size_t i = 0; i < 3; ++i) heap.allocate(heap_storage(i), MiB(1));
  heap.free(heap_storage(0));
  heap.allocate(heap_storage(3), MiB(2));
  EXPECT_EQ(heap.resident(), MiB(5));
  heap.free(heap_storage(1));
  heap.allocate(heap_storage(4), MiB(2));
  EXPECT_EQ(heap.resident(), Bytes{MiB(5).count + KiB(4).count});  // and the page between the joined ones
}

TEST(PageHeap, AnExtentMoreThan64TimesAsLargeIsLeftAlone) {
  PageHeap heap;
  heap.allocate(heap_storage(0), MiB(4));
  heap.free(heap_storage(0));
  heap.allocate(heap_storage(1), KiB(32));
  EXPECT_EQ(heap.resident(), Bytes{MiB(4).count + KiB(32).count});
}

TEST(PageHeap, SmallOnesCountAsTheyAre) {
  PageHeap heap;
  heap.allocate(heap_storage(0), Bytes{100});
  EXPECT_EQ(heap.resident(), Bytes{100});
  heap.free(heap_storage(0));
  heap.free(heap_storage(1));
  EXPECT_EQ(heap.resident(), Bytes{});
}

}  // namespace
}  // namespace shade::plan
