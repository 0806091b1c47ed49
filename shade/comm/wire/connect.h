// Connections to all other ranks of a group. Addresses come through the sealed store; of two ranks, the higher one
// connects to the lower one. A client that connects but doesn't complete the handshake (wire/handshake.h) is refused,
// and the ranks of the group connect all the same. When all have connected, the listener is closed.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shade/base/descriptor.h"
#include "shade/base/units.h"
#include "shade/comm/wire/handshake.h"

namespace c10d {
class Store;
}

namespace shade::comm::wire {

struct ConnectOptions {
  std::string group;              // its name, for messages
  std::string address;            // to listen on
  int rank = 0;                   // within the group
  std::vector<int> global_ranks;  // of the group's members
  Secret secret;                  // of this group in this start of the world
  bool seal = false;
  Seconds limit{60};
  std::function<void()> interrupt;  // called now and then; throws to end the wait
};

struct Connection {
  Descriptor socket;
  Agreement agreement;
};

// Connections besides those of the group that a rank has open at most while it connects.
size_t most_arrivals(int rank, int size);

// By rank within the group; none for the own rank. Throws CommError naming the ranks that did not connect.
std::vector<std::optional<Connection>> connect_group(c10d::Store& store, const ConnectOptions& options);

}  // namespace shade::comm::wire
