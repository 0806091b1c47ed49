// A world seen as a grid with named axes, e.g. replicate x shard for HSDP.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shade/comm/world.h"

namespace shade::comm {

struct Axis {
  std::string name;
  int size = 1;
};

// Row-major: ranks that differ only in the last axis are neighbours, so put the axis with the most traffic last.
class Mesh {
 public:
  // The sizes must multiply to world.size(). Refers to `world`.
  Mesh(World& world, std::vector<Axis> axes);

  int size(std::string_view axis) const;
  int coordinate(std::string_view axis) const;                // of this rank
  std::vector<int> ranks_along(std::string_view axis) const;  // world ranks that share all other coordinates with us

  // The group along an axis for one purpose ("gather", "reduce", "control"). All ranks of the world must ask for the
  // same groups in the same order; each purpose is a separate group, so that they don't queue behind each other.
  Group group(std::string_view axis, const std::string& purpose) const;

 private:
  size_t index(std::string_view axis) const;
  int stride(size_t axis) const;

  World* world_;
  std::vector<Axis> axes_;
};

}  // namespace shade::comm
