// Groups of a world by the shape of their mesh: each is connected once, because names of groups are unique in a world.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "shade/comm/world.h"
#include "shade/shard/runtime.h"

namespace shade::proof {

class Meshes {
 public:
  explicit Meshes(std::string name) : name_(std::move(name)) {}

  // Collective.
  shard::Groups groups(comm::World& world, const shard::ShardConfig& config) {
    const auto policy = shard::policy_of(config, world.size());
    const std::pair shape{policy.replicate, policy.shard};
    if (!known_.contains(shape)) known_[shape] = shard::connect_groups(world, policy, name_ + " ");
    auto out = known_[shape];
    out.policy = policy;
    return out;
  }

 private:
  std::string name_;
  std::map<std::pair<int, int>, shard::Groups> known_;
};

}  // namespace shade::proof
