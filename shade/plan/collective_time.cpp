#include "shade/plan/collective_time.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

namespace shade::plan {
namespace {

using comm::Collective;

// A tree's messages are cut into smaller pieces than a ring's: it reaches 0.9 of the bandwidth.
constexpr double kTreeBytes = 1.1;
// Small agreements of hosts over TCP.
constexpr Seconds kHostMessage{30e-6};
constexpr double kHostBytesPerSecond = 1e9;

double rounds(int count) {
  return count < 2 ? 0 : static_cast<double>(std::bit_width(static_cast<unsigned>(count - 1)));
}

// The nearest measured group: the same kind, as many nodes or at least several as well.
const CollectiveRate* measured_rate(const DeviceProfile& device, Collective kind, const GroupShape& shape) {
  const CollectiveRate* best = nullptr;
  const auto distance = [&](const CollectiveRate& of) {
    return std::abs(std::log2(static_cast<double>(of.ranks) / shape.ranks));
  };
  for (const auto& of : device.collectives)
    if (of.kind == kind && (of.nodes > 1) == (shape.nodes > 1) && (best == nullptr || distance(of) < distance(*best)))
      best = &of;
  return best;
}

}  // namespace

GroupShape group_shape(int ranks, int stride, int ranks_per_node) {
  const int per_node = std::clamp(ranks_per_node / std::max(1, stride), 1, std::max(1, ranks));
  return {.ranks = ranks, .nodes = (ranks + per_node - 1) / per_node, .per_node = per_node};
}

Seconds collective_time(const CollectiveEvent& of, const DeviceProfile& device) {
  if (of.ranks < 2) return Seconds(0);
  const auto shape = group_shape(of.ranks, of.stride, device.ranks_per_node);
  const double bytes = static_cast<double>(of.payload.count), ranks = shape.ranks, nodes = shape.nodes;
  if (of.kind != Collective::barrier)
    if (const auto* known = measured_rate(device, of.kind, shape))
      return known->rate.time(bytes) *
             (comm::bus_factor(of.kind, shape.ranks) / comm::bus_factor(of.kind, known->ranks));
  if (of.host) return kHostMessage * rounds(of.ranks) + Seconds(bytes / kHostBytesPerSecond);

  const bool wide = shape.nodes > 1;
  SHADE_REQUIRE((!wide || device.network.reachable > 0) && (shape.per_node == 1 || device.inside.reachable > 0),
                "device profile '", device.name, "' has no rate for ", wide ? "'network'" : "'inside'",
                ", which a group of ", of.ranks, " ranks uses; add its latency_us and reachable bytes per second");
  double bus = wide ? shape.per_node * device.network.reachable : device.inside.reachable;
  if (shape.per_node > 1) bus = std::min(bus, device.inside.reachable);
  const auto in = device.inside.latency, net = device.network.latency;
  const Seconds ring = in * (ranks - nodes) + net * (nodes - 1) + Seconds(bytes * (ranks - 1) / ranks / bus);
  const Seconds hops = in * static_cast<double>(shape.per_node - 1) + net * rounds(shape.nodes);
  const auto body = [&]() -> Seconds {
    switch (of.kind) {
      case Collective::all_gather:
      case Collective::reduce_scatter: return ring;
      case Collective::all_reduce:
        return std::min(2 * ring, 2 * hops + Seconds(kTreeBytes * 2 * bytes * (ranks - 1) / ranks / bus));
      case Collective::all_to_all: {
        const double each = bytes / ranks, here = shape.per_node - 1, elsewhere = ranks - shape.per_node;
        const double near = here > 0 ? each * here / device.inside.reachable : 0;
        const double far = elsewhere > 0 ? each * elsewhere / device.network.reachable : 0;
        return (wide ? net : in) + Seconds(std::max(near, far));
      }
      case Collective::broadcast: return hops + Seconds(bytes / bus);
      case Collective::barrier: return 2 * (wide ? net : in) * rounds(of.ranks);
    }
    return Seconds(0);
  };
  return device.collective_start + body();
}

}  // namespace shade::plan
