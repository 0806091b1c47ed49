#include "shade/shard/config.h"

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/catalog/methods.h"

namespace shade::shard {

namespace {

std::string names_for_many() {
  std::vector<std::string> names;
  for (const auto& row : catalog::kStrategies)
    if (row.max_ranks > 1) names.emplace_back(row.name);
  return join(names, ", ");
}

}  // namespace

Policy policy_of(const ShardConfig& config, int world_size) {
  switch (config.shard) {
    case Strategy::none:
      SHADE_REQUIRE(world_size == 1, "strategy none (--shard none) is for one process, but this world has ", world_size,
                    " ranks; choose one of ", names_for_many());
      return {};
    case Strategy::ddp: return {.replicate = world_size};
    case Strategy::zero2: return {.shard = world_size};
    case Strategy::zero3: return {.shard = world_size, .reshard = true};
    case Strategy::hsdp: break;
  }
  const auto copies = static_cast<int>(config.replicate);
  SHADE_REQUIRE(world_size % copies == 0, "replicate (--replicate) is ", copies, ", which doesn't divide a world of ",
                world_size, " ranks");
  return {.replicate = copies, .shard = world_size / copies, .reshard = true};
}

std::string choose_strategy(ShardConfig& shard, const Given& given, int ranks) {
  constexpr Bytes kLeastSegment = KiB(4);  // that of --comm.segment; smaller ones cost a message for a few bytes
  SHADE_REQUIRE(shard.segment.count == 0 || shard.segment >= kLeastSegment, "--segment-bytes ", shard.segment.count,
                " is out of range; expected at least ", kLeastSegment.count, ", or 0 for the default");
  if (given("shard.shard")) return {};
  const auto method = given.word("dp.dp");
  const bool named = std::any_of(std::begin(catalog::kMethods), std::end(catalog::kMethods),
                                 [&](const auto& row) { return !row.fsdp.empty() && row.fsdp == method; });
  if (!named && ranks == 1) return {};
  SHADE_REQUIRE(!given("shard.replicate"), "--replicate is for --shard hsdp, and no --shard was given; add it");
  shard.shard = Strategy::zero3;
  return text("zero3: ", named ? text(method, " is sharded fully") : text("there are ", ranks, " ranks"),
              ", and --shard was not given");
}

}  // namespace shade::shard
