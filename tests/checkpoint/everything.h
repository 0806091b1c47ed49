// A run's whole state: what must not depend on the world.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>

#include "shade/checkpoint/owned.h"

namespace shade::checkpoint {

// Every weight and optimizer state by name, whole, in fp32. Collective over `all`.
inline std::map<std::string, at::Tensor> everything(shard::Runtime& runtime, optim::Optimizer& optimizer,
                                                    nn::Parameters& parameters, const comm::Group& all) {
  std::map<std::string, at::Tensor> out;
  auto parts = optimizer.state_names();
  parts.insert(parts.begin(), kWeightPart);
  for (const auto& weight : parameters.weights())
    for (const auto& part : parts)
      if (weight.trainable() || part == kWeightPart) out[part + "/" + weight.name()] = at::zeros({weight.numel()});
  // What a rank doesn't own is zero there, and copies are counted once: the sum is the whole.
  if (runtime.groups().replicate.rank() == 0)
    for (const auto& piece : owned_by(runtime, optimizer))
      out.at(piece.part + "/" + piece.weight).narrow(0, piece.begin, piece.values.numel()).copy_(piece.values);
  for (auto& [name, whole] : out) all.all_reduce(whole).wait();
  return out;
}

}  // namespace shade::checkpoint
