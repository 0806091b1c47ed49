#include "shade/shard/config.h"

#include "shade/base/strings.h"

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
      SHADE_REQUIRE(world_size == 1, "--shard none is for one process, but this world has ", world_size,
                    " ranks; choose one of ", names_for_many());
      return {};
    case Strategy::ddp: return {.replicate = world_size};
    case Strategy::zero2: return {.shard = world_size};
    case Strategy::zero3: return {.shard = world_size, .reshard = true};
    case Strategy::hsdp: break;
  }
  const auto copies = static_cast<int>(config.replicate);
  SHADE_REQUIRE(world_size % copies == 0, "--replicate ", copies, " doesn't divide a world of ", world_size, " ranks");
  return {.replicate = copies, .shard = world_size / copies, .reshard = true};
}

}  // namespace shade::shard
