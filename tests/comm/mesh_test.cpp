#include "shade/comm/mesh.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "shade/base/error.h"
#include "tests/support/ranks.h"

namespace shade::comm {
namespace {

TEST(Mesh, NeighboursShareTheLastAxis) {
  auto world = World::simulated(5, 12);
  const Mesh mesh(world, {{"replicate", 2}, {"shard", 6}});
  EXPECT_EQ(mesh.coordinate("replicate"), 0);
  EXPECT_EQ(mesh.coordinate("shard"), 5);
  EXPECT_EQ(mesh.ranks_along("shard"), (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(mesh.ranks_along("replicate"), (std::vector<int>{5, 11}));
}

TEST(Mesh, RefusesSizesThatDontFit) {
  auto world = World::simulated(0, 8);
  const auto fault = [&](std::vector<Axis> axes) -> std::string {
    try {
      const Mesh mesh(world, std::move(axes));
      (void)mesh.size("shrad");
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(fault({{"replicate", 2}, {"shard", 3}}), "a mesh of replicate 2 x shard 3 needs 6 ranks; the world has 8");
  EXPECT_EQ(fault({{"a", 8}, {"a", 1}}), "mesh axis 'a' appears twice");
  EXPECT_EQ(fault({{"shard", 8}}), "the mesh has no axis 'shrad'; it has shard; did you mean 'shard'?");
}

TEST(Mesh, RowsAndColumnsSumSeparately) {
  test::run_ranks(4, test::As::threads, [](World& world) {
    const Mesh mesh(world, {{"replicate", 2}, {"shard", 2}});
    const auto sum = [&](const char* axis) {
      auto value = at::full({1}, static_cast<float>(world.rank()));
      mesh.group(axis, "reduce").all_reduce(value).wait();
      return value.item<float>();
    };
    EXPECT_EQ(sum("shard"), world.rank() < 2 ? 0 + 1 : 2 + 3);
    EXPECT_EQ(sum("replicate"), world.rank() % 2 == 0 ? 0 + 2 : 1 + 3);
  });
}

}  // namespace
}  // namespace shade::comm
