#include "shade/profile/memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <latch>
#include <memory>
#include <thread>

#include "shade/base/sanitizer.h"
#include "shade/profile/phases.h"

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

TEST(TensorMemory, KnowsTheMostOfEachKindAtItsOwnMoment) {
  TensorMemory::track();
  TensorMemory::reset_peak();
  const auto before = TensorMemory::breakdown();
  const auto made = [](MemoryKind kind, int64_t bytes) {
    const MemoryScope scope(kind);
    return at::empty({bytes}, at::kByte);
  };
  {
    const auto gram = made(MemoryKind::gram, 4000);
  }
  {
    const auto activation = made(MemoryKind::activations, 9000);
  }
  const auto grown = [&](const MemoryBreakdown& memory, MemoryKind kind) {
    return (memory.of(kind) - before.of(kind)).count;
  };
  EXPECT_EQ(grown(TensorMemory::peak_breakdown(), MemoryKind::gram), 0) << "it was gone at the peak";
  EXPECT_EQ(grown(TensorMemory::most(), MemoryKind::gram), 4000);
  EXPECT_EQ(grown(TensorMemory::most(), MemoryKind::activations), 9000);
  EXPECT_EQ(TensorMemory::most().total, TensorMemory::peak());
  {
    const auto kept = made(MemoryKind::activations, 500);
    MemoryUse::changed(kept.storage().data(), MemoryKind::kept);
  }
  EXPECT_EQ(grown(TensorMemory::most(), MemoryKind::kept), 500) << "what it is for changed";
  TensorMemory::reset_peak();
  EXPECT_EQ(grown(TensorMemory::most(), MemoryKind::gram), 0);
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
  const auto error = MiB(SHADE_SANITIZED ? 16 : 4);  // AddressSanitizer's own notes are an eighth of the memory
  EXPECT_NEAR(static_cast<double>(grown.count), static_cast<double>(MiB(64).count), static_cast<double>(error.count));
  const auto now = process_memory();
  EXPECT_GE(now.anonymous, MiB(64));
  EXPECT_LT(now.anonymous, now.resident) << "libraries are files";
  EXPECT_GE(now.peak_resident, now.resident);
}

TEST(TensorMemory, NamesWhoMadeThePeak) {
  TensorMemory::track();
  const Phases phases;  // somebody listens
  UnitSpan unit;
  TensorMemory::reset_peak();
  EXPECT_EQ(TensorMemory::peak_place().phase, SpanName::other);
  const Span outer(SpanName::backward);
  unit.enter(SpanName::unit_backward, 3);
  at::Tensor kept;
  {
    const Span inner(SpanName::norm, 17);
    const MemoryScope scope(MemoryKind::norms);
    kept = at::empty({100000}, at::kFloat);
  }
  unit.leave();
  {
    const Span later(SpanName::noise);
    const auto smaller = at::empty({1}, at::kFloat);  // a higher peak, by 4 bytes
    EXPECT_EQ(TensorMemory::peak_place().within, SpanName::noise);
    EXPECT_EQ(TensorMemory::peak_place().unit, -1);
  }
  kept.reset();
  TensorMemory::reset_peak();
  unit.enter(SpanName::unit_backward, 3);
  {
    const Span inner(SpanName::norm, 17);
    const MemoryScope scope(MemoryKind::norms);
    kept = at::empty({100000}, at::kFloat);
  }
  const auto place = TensorMemory::peak_place();
  EXPECT_EQ(place.phase, SpanName::backward);
  EXPECT_EQ(place.within, SpanName::norm);
  EXPECT_EQ(place.index, 17);
  EXPECT_EQ(place.unit, 3);
  EXPECT_EQ(place.kind, MemoryKind::norms);
  EXPECT_EQ(place.bytes.count, 400000);
  unit.leave();
}

// Two models of one process, each on a thread of its own: neither's unit is taken for the other's.
TEST(TensorMemory, UnitsOfTwoModelsAreToldApart) {
  TensorMemory::track();
  const auto unit_of_peak = [] {
    TensorMemory::reset_peak();
    const auto peak = at::empty({100000}, at::kFloat);
    return TensorMemory::peak_place().unit;
  };
  const auto elsewhere = [&] {
    int64_t unit = 0;
    std::thread([&] { unit = unit_of_peak(); }).join();
    return unit;
  };
  UnitSpan mine;
  auto other = std::make_unique<UnitSpan>();
  {
    const Phases phases;
    mine.enter(SpanName::unit_forward, 3);
    EXPECT_EQ(elsewhere(), 3) << "a thread of neither model works for the only one there is";
    std::latch entered(1), seen(1);
    int64_t of_other = 0;
    std::thread runner([&] {
      other->enter(SpanName::unit_forward, 8);
      of_other = unit_of_peak();
      entered.count_down();
      seen.wait();
    });
    entered.wait();
    EXPECT_EQ(of_other, 8);
    EXPECT_EQ(unit_of_peak(), 3);
    EXPECT_EQ(elsewhere(), -1) << "whose unit it works for is not known";
    seen.count_down();
    runner.join();
    other.reset();  // given up
    EXPECT_EQ(elsewhere(), 3);
  }
  mine.leave();  // unheard
  const Phases later;
  EXPECT_EQ(unit_of_peak(), -1);
}

TEST(TensorMemory, RecordsItsCourse) {
  TensorMemory::track();
  TensorMemory::reset_peak();
  const auto before = TensorMemory::current();
  TensorMemory::record_course();
  int64_t highest = 0;
  for (int i = 1; i <= 20000; ++i) {
    const auto brief = at::empty({(i % 100) << 12}, at::kByte);
    highest = std::max<int64_t>(highest, (i % 100) << 12);
  }
  const auto course = TensorMemory::take_course();
  EXPECT_GT(course.size(), 100u);
  EXPECT_LE(course.size(), 4097u) << "it is thinned, not endless";
  int64_t seen = 0;
  for (size_t i = 0; i < course.size(); ++i) {
    EXPECT_GE(course[i].at, course[i > 0 ? i - 1 : 0].at);
    int64_t sum = 0;
    for (const auto kind : course[i].memory.kinds) sum += kind.count;
    EXPECT_EQ(sum, course[i].memory.total.count);
    seen = std::max(seen, (course[i].memory.total - before).count);
  }
  EXPECT_GT(static_cast<double>(seen), 0.9 * static_cast<double>(highest));
  EXPECT_EQ(course.back().memory.total, before);
  const auto more = at::empty({1 << 22}, at::kByte);
  EXPECT_EQ(TensorMemory::take_course().size(), 1u) << "the recording had ended";
}

}  // namespace
}  // namespace shade::profile
