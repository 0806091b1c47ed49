#include "shade/profile/memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>

namespace shade::profile {
namespace {

TEST(TensorMemory, CountsEveryByteUntilItIsFreed) {
  TensorMemory::track();
  TensorMemory::track();
  const auto before = TensorMemory::current();
  TensorMemory::reset_peak();
  {
    const auto kept = at::empty({1000}, at::kFloat);
    {
      const auto brief = at::empty({5000}, at::kFloat);
    }
    EXPECT_EQ((TensorMemory::current() - before).count, 4000);
    const auto view = kept.view({10, 100}).narrow(0, 2, 3);
    EXPECT_EQ((TensorMemory::current() - before).count, 4000) << "a view is free";
  }
  EXPECT_EQ(TensorMemory::current(), before);
  EXPECT_EQ((TensorMemory::peak() - before).count, 24000);
}

TEST(TensorMemory, WhatItIsForMayChange) {
  TensorMemory::track();
  const auto before = TensorMemory::breakdown();
  const MemoryScope scope(MemoryKind::activations);
  {
    const auto kept = at::empty({1000}, at::kFloat);
    EXPECT_EQ((TensorMemory::breakdown().of(MemoryKind::activations) - before.of(MemoryKind::activations)).count, 4000);
    MemoryUse::changed(kept.storage().data(), MemoryKind::kept);
    EXPECT_EQ(TensorMemory::breakdown().of(MemoryKind::activations), before.of(MemoryKind::activations));
    EXPECT_EQ((TensorMemory::breakdown().of(MemoryKind::kept) - before.of(MemoryKind::kept)).count, 4000);
    EXPECT_EQ((TensorMemory::current() - before.total).count, 4000);
  }
  EXPECT_EQ(TensorMemory::breakdown().of(MemoryKind::kept), before.of(MemoryKind::kept));
}

TEST(TensorMemory, AveragesOverTime) {
  TensorMemory::track();
  const auto before = TensorMemory::current();
  TensorMemory::restart_average();
  {
    const auto kept = at::empty({1 << 20}, at::kByte);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(90));
  const auto grown = static_cast<double>((TensorMemory::average() - before).count);
  EXPECT_NEAR(grown, (1 << 20) / 4.0, (1 << 20) / 10.0);
}

TEST(TensorMemory, ResidentMemoryFollows) {
  TensorMemory::track();
  const auto before = process_memory().resident;
  const auto big = at::ones({64 << 20}, at::kByte);
  const auto grown = process_memory().resident - before;
  EXPECT_NEAR(static_cast<double>(grown.count), static_cast<double>(MiB(64).count), static_cast<double>(MiB(4).count));
  EXPECT_GE(process_memory().anonymous, MiB(64));
  EXPECT_LT(process_memory().anonymous, process_memory().resident) << "libraries are files";
  EXPECT_GE(process_memory().peak_resident, process_memory().resident);
}

}  // namespace
}  // namespace shade::profile
