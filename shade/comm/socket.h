// The little that we do with sockets ourselves: choosing the address others may reach us at.
#pragma once

#include <cstdint>
#include <string>

namespace shade::comm {

// A listening TCP socket bound to exactly this host name or address (port 0: any). The caller owns the descriptor.
struct Listener {
  int descriptor = -1;
  uint16_t port = 0;
};
Listener listen_on(const std::string& host, uint16_t port);
void make_nonblocking(int descriptor);

// A non-blocking socket that is being connected to this numeric address; a failure shows when it is used. The caller
// owns the descriptor.
int begin_connecting(const std::string& host, uint16_t port);

// The local address from which `host` is reached: on several hosts, the interface that leads to rank 0.
std::string local_address_towards(const std::string& host, uint16_t port);

// The address of a network interface by name, e.g. "eth0".
std::string address_of_interface(const std::string& name);

}  // namespace shade::comm
