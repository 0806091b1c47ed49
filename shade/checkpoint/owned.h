// What a rank has that a checkpoint keeps: by weight name and element number, whatever the strategy, world and wrap.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "shade/checkpoint/manifest.h"
#include "shade/optim/optimizer.h"
#include "shade/shard/runtime.h"

namespace shade::checkpoint {

inline constexpr const char* kWeightPart = "weight";

// Elements [begin, begin + values.numel()) of a weight, or of a state that the optimizer keeps for it.
struct Owned {
  std::string part;  // "weight", "exp_avg", ...
  std::string weight;
  int64_t begin = 0;
  at::Tensor values;  // flat; the live ones
  bool trainable = true;

  std::string name() const;  // "exp_avg/model.norm.weight@64"
};

struct PieceName {
  std::string part, weight;
  int64_t begin = 0;
};
PieceName parse_piece_name(std::string_view name);  // throws io::FormatError

// All that this rank owns, in an order that the copies of a shard (ddp, hsdp) have in common. Prepares an optimizer
// that has not made a step.
std::vector<Owned> owned_by(shard::Runtime& runtime, optim::Optimizer& optimizer);

// Of these the ones that this copy writes, each written by one: as even as whole pieces allow.
std::vector<Owned> dealt(std::vector<Owned> owned, int copies, int copy);

// The same with copies of the values in `block`, memory of the host that is made or made larger where needed. Copies
// from a device may be under way when it returns: nn::Issued says when they are done.
std::vector<Owned> copied(const std::vector<Owned>& pieces, at::Tensor& block);

std::vector<SavedWeight> weights_of(const shard::Runtime& runtime);

}  // namespace shade::checkpoint
