// How long a collective takes by itself, on a mesh of two levels: links inside a node, a network between nodes.
//
//   W ranks on n nodes, g of them on each; N bytes of the full buffer
//   busbw = inside, or min(inside, g x network) over several nodes: the rings of a node share its g network ports
//   gather, scatter    ring: (W - n) inside + (n - 1) network latencies + (W-1)/W N / busbw
//   all_reduce         twice that, or a tree: 2 ((g-1) inside + log2(n) network) latencies, 1.1 x the bytes
//   all_to_all         inside and between nodes at once, each at its own link's rate
//   broadcast          a chain in the node, a tree between nodes, pipelined: N / busbw
// Latencies and form are those by which NCCL itself chooses an algorithm. Measured times of a profile go before.
#pragma once

#include "shade/plan/device_profile.h"
#include "shade/plan/step_record.h"

namespace shade::plan {

struct GroupShape {
  int ranks = 1, nodes = 1, per_node = 1;
};
// Of a group of `ranks` members, every `stride`-th rank of the world.
GroupShape group_shape(int ranks, int stride, int ranks_per_node);

Seconds collective_time(const CollectiveEvent& of, const DeviceProfile& device);

}  // namespace shade::plan
