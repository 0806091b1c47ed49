#include "shade/comm/group.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "shade/base/error.h"
#include "shade/comm/errors.h"
#include "tests/support/fault.h"
#include "tests/support/ranks.h"

namespace shade::comm {
namespace {
using test::fault;

TEST(Group, RefusesWhatCannotBeMeant) {
  test::run_ranks(1, test::As::threads, [](World& world) {
    const auto group = world.group("g");
    EXPECT_EQ(fault([&] { group.all_gather(at::zeros({4}), at::zeros({3})); }),
              "all_gather: rank 0 of 1 owns 4 of 4 elements, but its slice has 3; use comm::slice_of");
    EXPECT_EQ(fault([&] { group.all_gather(at::zeros({4}), at::zeros({4}, at::kDouble)); }),
              "all_gather: input is Double, output is Float; expected the same dtype");
    EXPECT_EQ(fault([&] { group.reduce_scatter(at::zeros({4}, at::kBFloat16), at::zeros({4})); }),
              "reduce_scatter: cannot reduce Float into BFloat16; expected the same dtype, or fp32 for the output");
    EXPECT_EQ(fault([&] { group.all_reduce(at::zeros({4, 4}).t()); }),
              "all_reduce: the only tensor of sizes [4, 4] is not contiguous; pass a flat buffer or call contiguous() "
              "first");
    EXPECT_EQ(fault([&] { group.broadcast(at::zeros({4}), {.root = 1}); }),
              "broadcast: root 1 is not in a group of 1 ranks");
    EXPECT_EQ(fault([&] { group.all_to_all(at::zeros({4}), at::zeros({4}), {.input_splits = {3}}); }),
              "all_to_all: 1 input_splits of 3 elements; expected 1 of 4");
    EXPECT_EQ(
        fault([&] { world.group("g"); }),
        "there is a group 'g' already, and names are unique in a world; a second job on the same mesh takes the groups "
        "of the first (JobOptions::groups)");
    EXPECT_EQ(fault([&] { world.group("h", {1}); }), "group h: ranks 1 are not sorted ranks of a world of 1");
    EXPECT_EQ(fault([&] { Group().rank(); }), "this group was never made; get one from World::group or Mesh::group");
  });
}

TEST(Group, OperationsOfOneGroupRunInOrderWhileOthersOvertake) {
  test::run_ranks(2, test::As::threads, [](World& world) {
    const auto gathers = world.group("gathers");
    const auto reductions = world.group("reductions");
    auto blocked = at::ones({8});
    Work first;
    if (world.rank() == 0) first = gathers.all_reduce(blocked);  // rank 1 doesn't come to this one yet
    auto other = at::ones({8});
    reductions.all_reduce(other).wait();  // and yet this one completes
    EXPECT_TRUE(at::equal(other, at::full({8}, 2.0f)));
    if (world.rank() == 0) {
      EXPECT_FALSE(first.done());
    }
    reductions.barrier().wait();  // only now does rank 1 come
    if (world.rank() == 1) first = gathers.all_reduce(blocked);
    first.wait();
    EXPECT_TRUE(first.done());
    first.wait();  // again, and the same
    EXPECT_TRUE(at::equal(blocked, at::full({8}, 2.0f)));
  });
}

TEST(Group, ManyInFlightAtOnce) {
  test::run_ranks(3, test::As::threads, [](World& world) {
    const auto group = world.group("g");
    std::vector<at::Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < 50; ++i) {
      tensors.push_back(at::full({100 + 37 * i}, static_cast<float>(world.rank() + i)));
      works.push_back(group.all_reduce(tensors.back()));
    }
    for (const auto& work : works) work.wait();
    for (int i = 0; i < 50; ++i)
      EXPECT_TRUE(at::equal(tensors[static_cast<size_t>(i)], at::full({100 + 37 * i}, static_cast<float>(3 + 3 * i))))
          << i;
  });
}

TEST(Group, GathersInPlace) {
  test::run_ranks(2, test::As::threads, [](World& world) {
    const auto group = world.group("g");
    auto whole = at::zeros({5});
    auto mine = world.rank() == 0 ? whole.narrow(0, 0, 3) : whole.narrow(0, 3, 2);
    mine.fill_(static_cast<float>(world.rank() + 1));
    group.all_gather(whole, mine).wait();
    EXPECT_TRUE(at::equal(whole, at::tensor({1.f, 1.f, 1.f, 2.f, 2.f})));
  });
}

TEST(Group, SumsOfBf16AreRoundedOnce) {
  test::run_ranks(4, test::As::threads, [](World& world) {
    const auto group = world.group("g");
    // 256 + 1 rounds back to 256 in bf16: adding 1 three times in bf16 would be lost, in fp32 it isn't.
    const auto input = at::full({8}, world.rank() == 0 ? 256.0 : 1.0, at::kBFloat16);
    auto narrow = at::empty({2}, at::kBFloat16);
    group.reduce_scatter(narrow, input).wait();
    EXPECT_EQ(narrow[0].item<float>(), 260.0f);  // 259 rounded once to bf16's step of 2
    auto wide = at::empty({2}, at::kFloat);
    group.reduce_scatter(wide, input).wait();
    EXPECT_EQ(wide[0].item<float>(), 259.0f);
  });
}

TEST(Group, AnAbortedGroupSaysWhyEveryTime) {
  test::run_ranks(2, test::As::threads, [](World& world) {
    const auto group = world.group("g");
    if (world.rank() == 1) {  // the peer never comes; its end of the connection goes when the group does
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      return;
    }
    auto tensor = at::ones({4});
    const auto work = group.all_reduce(tensor, {.label = "unit 7"});
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(work.done());
    group.abort(std::make_exception_ptr(PeerLost("rank 1 is stopped")));
    for (int i = 0; i < 2; ++i) {
      try {
        work.wait();
        FAIL();
      } catch (const PeerLost& lost) {
        EXPECT_STREQ(lost.what(), "all_reduce unit 7 of group g: rank 1 is stopped");
      }
    }
    EXPECT_THROW(group.barrier().wait(), PeerLost) << "nothing works after that";
  });
}

TEST(Group, DestroyedWithOperationsUnderWayDoesNotHang) {
  test::run_ranks(2, test::As::threads, [](World& world) {
    auto tensor = at::ones({4});
    const auto group = world.group("g");
    group.barrier().wait();  // both are connected
    if (world.rank() == 0) (void)group.all_reduce(tensor);
  });
}

}  // namespace
}  // namespace shade::comm
