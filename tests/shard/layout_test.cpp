#include "shade/shard/sharded_unit.h"

#include <gtest/gtest.h>

#include "tests/support/fault.h"

namespace shade::shard {
namespace {

// Units of 12, 70 and 5 elements; one weight of the second is frozen.
struct Model {
  Model() {
    parameters.begin_unit("embed");
    parameters.add("e", {3, 4}, {});
    parameters.begin_unit("block");
    parameters.add("w", {6, 10}, {});
    parameters.add("f", {10}, {}).freeze();
    parameters.begin_unit("head");
    parameters.add("h", {5}, {});
  }
  nn::Parameters parameters;
};

Layout layout_with(nn::Parameters& parameters, Wrap wrap, int64_t least = 1, Bytes segment = MiB(1)) {
  ShardConfig config;
  config.wrap = wrap;
  config.min_num_params = least;
  config.segment = segment;
  return make_layout(parameters, config);
}

TEST(Layout, WrapPolicies) {
  Model m;
  const auto module = layout_with(m.parameters, Wrap::module);
  ASSERT_EQ(module.units.size(), 3u);
  EXPECT_EQ(module.units[1].flats.size(), 2u);
  EXPECT_EQ(module.units[1].flats[0].size, 60);
  EXPECT_EQ(module.units[1].flats[1].name, "block.frozen");
  EXPECT_FALSE(module.units[1].flats[1].trainable);
  EXPECT_EQ(module.unit_of, (std::vector<int>{0, 1, 2}));
  const auto size = layout_with(m.parameters, Wrap::size, 50);  // 12 is too few, 82 suffice
  EXPECT_EQ(size.unit_of, (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(size.units[0].members, (std::vector<nn::UnitId>{0, 1}));
  const auto none = layout_with(m.parameters, Wrap::none);
  EXPECT_EQ(none.unit_of, (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(none.units[0].elements(), 87);
}

// One collective for a unit, but for a rest that many numbers of ranks don't divide.
TEST(Layout, AcceleratorsMoveWholeUnits) {
  nn::Parameters parameters;
  for (const int64_t size : {100, 1 << 14, 3 * (1 << 24) + 5}) {
    parameters.begin_unit(text("unit", size));
    parameters.add(text("weight", size), {size}, {});
  }
  const auto sizes = [&](at::Device device, Bytes segment = {}) {
    ShardConfig config;
    config.segment = segment;
    std::vector<std::vector<int64_t>> out;
    for (const auto& unit : make_layout(parameters, config, device).units) {
      out.emplace_back();
      for (const auto& slice : unit.flats.front().segments) out.back().push_back(slice.size);
    }
    return out;
  };
  using Sizes = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(sizes(at::kCUDA), (Sizes{{100}, {1 << 14}, {3 * (1 << 24), 5}}));
  EXPECT_EQ(sizes(at::kCPU), (Sizes{{100}, {1 << 14}, {1 << 24, 1 << 24, 1 << 24, 5}}));
  EXPECT_EQ(sizes(at::kCUDA, MiB(128)).back(), (std::vector<int64_t>{1 << 25, (1 << 24) + 5})) << "as wanted";
}

TEST(Layout, EveryElementHasOneOwner) {
  Model m;
  for (const auto wrap : {Wrap::module, Wrap::size, Wrap::none}) {
    for (const int64_t bytes : {4, 28, 1 << 20}) {
      const auto layout = layout_with(m.parameters, wrap, 50, Bytes{bytes});
      for (const int ranks : {1, 2, 3, 7, 100}) {
        std::map<std::pair<nn::WeightId, int64_t>, int> owners;
        for (const auto& unit : layout.units)
          for (const auto& flat : unit.flats)
            for (int rank = 0; rank < ranks; ++rank)
              for (size_t s = 0; s < flat.segments.size(); ++s) {
                EXPECT_LE(flat.segments[s].size * 4, std::max<int64_t>(bytes, 4));
                const auto mine = flat.owned(s, ranks, rank);
                for (const auto& run : runs_in(flat, mine)) {
                  EXPECT_LE(run.at + run.size, mine.size);
                  for (int64_t i = 0; i < run.size; ++i) ++owners[{run.weight->id(), run.begin + i}];
                }
              }
        EXPECT_EQ(owners.size(), 87u);
        for (const auto& [element, count] : owners) EXPECT_EQ(count, 1);
      }
    }
  }
}

TEST(Policy, OfEveryStrategy) {
  ShardConfig config;
  EXPECT_EQ(test::fault([&] { policy_of(config, 2); }),
            "strategy none (--shard none) is for one process, but this world has 2 ranks; choose one of ddp, zero2, "
            "zero3, hsdp");
  config.shard = Strategy::hsdp;
  config.replicate = 3;
  EXPECT_EQ(test::fault([&] { policy_of(config, 4); }),
            "replicate (--replicate) is 3, which doesn't divide a world of 4 ranks");
  config.replicate = 2;
  const auto hsdp = policy_of(config, 8);
  EXPECT_EQ(hsdp.replicate, 2);
  EXPECT_EQ(hsdp.shard, 4);
  EXPECT_TRUE(hsdp.reshard);
  config.shard = parse_name<Strategy>("SHARD_GRAD_OP");
  EXPECT_FALSE(policy_of(config, 8).reshard);
}

}  // namespace
}  // namespace shade::shard
