#include "shade/comm/mesh.h"

#include <set>

#include "shade/base/error.h"
#include "shade/base/strings.h"

namespace shade::comm {

Mesh::Mesh(World& world, std::vector<Axis> axes) : world_(&world), axes_(std::move(axes)) {
  int64_t product = 1;
  std::set<std::string> names;
  std::vector<std::string> parts;
  for (const auto& axis : axes_) {
    SHADE_REQUIRE(axis.size >= 1, "mesh axis '", axis.name, "' has size ", axis.size, "; expected at least 1");
    SHADE_REQUIRE(names.insert(axis.name).second, "mesh axis '", axis.name, "' appears twice");
    product *= axis.size;
    parts.push_back(text(axis.name, " ", axis.size));
  }
  SHADE_REQUIRE(product == world.size(), "a mesh of ", join(parts, " x "), " needs ", product, " ranks; the world has ",
                world.size());
}

size_t Mesh::index(std::string_view axis) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == axis) return i;
    names.push_back(axes_[i].name);
  }
  throw UsageError(text("the mesh has no axis '", axis, "'; it has ", join(names, ", "), suggestion(axis, names)));
}

int Mesh::stride(size_t axis) const {
  int stride = 1;
  for (size_t i = axis + 1; i < axes_.size(); ++i) stride *= axes_[i].size;
  return stride;
}

int Mesh::size(std::string_view axis) const { return axes_[index(axis)].size; }

int Mesh::coordinate(std::string_view axis) const {
  const auto i = index(axis);
  return world_->rank() / stride(i) % axes_[i].size;
}

std::vector<int> Mesh::ranks_along(std::string_view axis) const {
  const auto i = index(axis);
  const int step = stride(i);
  const int first = world_->rank() - coordinate(axis) * step;
  std::vector<int> ranks;
  for (int k = 0; k < axes_[i].size; ++k) ranks.push_back(first + k * step);
  return ranks;
}

Group Mesh::group(std::string_view axis, const std::string& purpose) const {
  return world_->group(text(axis, "/", purpose), ranks_along(axis));
}

}  // namespace shade::comm
