#include "shade/shard/groups.h"

namespace shade::shard {

Groups connect_groups(comm::World& world, const Policy& policy) {
  const comm::Mesh mesh(world, {{"replicate", policy.replicate}, {"shard", policy.shard}});
  const auto shape = text(" ", policy.replicate, "x", policy.shard);
  return {.policy = policy,
          .gather = mesh.group("shard", "gather" + shape),
          .reduce = mesh.group("shard", "reduce" + shape),
          .replicate = mesh.group("replicate", "reduce" + shape),
          .control = world.group("control" + shape)};
}

}  // namespace shade::shard
