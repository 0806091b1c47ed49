#include "shade/shard/groups.h"

namespace shade::shard {

Groups connect_groups(comm::World& world, const Policy& policy, const std::string& prefix) {
  const comm::Mesh mesh(world, {{"replicate", policy.replicate}, {"shard", policy.shard}});
  const auto shape = text(" ", policy.replicate, "x", policy.shard);
  return {.policy = policy,
          .gather = mesh.group("shard", prefix + "gather" + shape),
          .reduce = mesh.group("shard", prefix + "reduce" + shape),
          .replicate = mesh.group("replicate", prefix + "reduce" + shape),
          .control = world.control(prefix + "control" + shape)};
}

}  // namespace shade::shard
