// A run small enough for unit tests: weights of odd sizes in three units, one of them frozen, and an optimizer whose
// state is not zero. Gradients are a function of the element, so no model is needed.
#pragma once

#include <ATen/ATen.h>

#include "shade/checkpoint/store.h"
#include "shade/optim/adamw.h"
#include "shade/shard/runtime.h"
#include "tests/checkpoint/everything.h"

namespace shade::checkpoint {

struct SmallRun {
  SmallRun(comm::World& world, shard::Strategy strategy, shard::Wrap wrap = shard::Wrap::module)
      : SmallRun(connect(world, strategy), strategy, wrap) {}

  SmallRun(const shard::Groups& groups, shard::Strategy strategy, shard::Wrap wrap = shard::Wrap::module,
           optim::AdamWOptions options = {})
      : optimizer(optim::make_adamw(options)) {
    parameters.begin_unit("embed");
    parameters.add("embed.weight", {13, 7}, {});
    parameters.begin_unit("block");
    parameters.add("block.a", {5, 11}, {});
    parameters.add("block.b", {3}, nn::Init::constant(1));
    parameters.begin_unit("base");
    parameters.add("base.weight", {17}, {}).freeze();
    config.shard = strategy;
    config.wrap = wrap;
    config.segment = Bytes{160};  // several a buffer
    runtime.emplace(parameters, groups, config);
    runtime->initialise(1);
  }

  static shard::Groups connect(comm::World& world, shard::Strategy strategy) {
    shard::ShardConfig config;
    config.shard = strategy;
    return shard::connect_groups(world, shard::policy_of(config, world.size()));
  }

  void step() {
    std::vector<optim::Slot> slots;
    runtime->begin_step(0);
    for (const auto& shard : runtime->shards()) {
      for (const auto& run : shard.runs)
        shard.gradient.narrow(0, run.at, run.size)
            .copy_(at::arange(run.begin, run.begin + run.size, at::kFloat)
                       .add(static_cast<double>(run.weight->id() + optimizer->steps()))
                       .sin());
      slots.push_back({shard.name, shard.master, shard.gradient, shard.offset});
    }
    optimizer->step(slots, 0.01);
    runtime->updated();
  }

  std::map<std::string, at::Tensor> everything(const comm::Group& all) {
    return checkpoint::everything(*runtime, *optimizer, parameters, all);
  }

  nn::Parameters parameters;
  shard::ShardConfig config;
  std::optional<shard::Runtime> runtime;
  std::unique_ptr<optim::Optimizer> optimizer;
};

}  // namespace shade::checkpoint
