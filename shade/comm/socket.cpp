#include "shade/comm/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "shade/base/strings.h"
#include "shade/comm/errors.h"

namespace shade::comm {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses resolve(const std::string& host, uint16_t port, int kind) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = kind;
  addrinfo* found = nullptr;
  const int fault = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (fault != 0) throw CommError(text("cannot resolve host '", host, "': ", ::gai_strerror(fault)));
  return {found, &::freeaddrinfo};
}

std::string printed(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> name{};
  if (::getnameinfo(address, length, name.data(), name.size(), nullptr, 0, NI_NUMERICHOST) != 0) return "?";
  return name.data();
}

}  // namespace

Listener listen_on(const std::string& host, uint16_t port) {
  const auto addresses = resolve(host, port, SOCK_STREAM);
  const int descriptor = ::socket(addresses->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto fail = [&](const char* step) {
    const int why = errno;
    if (descriptor >= 0) ::close(descriptor);
    throw CommError(text("cannot ", step, " ", host, ":", port, ": ", std::strerror(why),
                         why == EADDRINUSE ? "; another job uses this port, choose one with MASTER_PORT" : ""));
  };
  if (descriptor < 0) fail("make a socket for");
  const int reuse = 1;
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  if (::bind(descriptor, addresses->ai_addr, addresses->ai_addrlen) != 0) fail("bind to");
  if (::listen(descriptor, 2048) != 0) fail("listen on");
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&bound), &length) != 0) fail("ask the port of");
  const auto network_port = bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                                        : reinterpret_cast<sockaddr_in*>(&bound)->sin_port;
  return {descriptor, ntohs(network_port)};
}

void make_nonblocking(int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags < 0 || ::fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) != 0)
    throw CommError(text("cannot change a socket: ", std::strerror(errno)));
}

int begin_connecting(const std::string& host, uint16_t port) {
  const auto addresses = resolve(host, port, SOCK_STREAM);
  const int descriptor = ::socket(addresses->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) throw CommError(text("cannot make a socket for ", host, ": ", std::strerror(errno)));
  ::connect(descriptor, addresses->ai_addr, addresses->ai_addrlen);
  return descriptor;
}

std::string local_address_towards(const std::string& host, uint16_t port) {
  const auto addresses = resolve(host, port, SOCK_DGRAM);
  const int descriptor = ::socket(addresses->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  // Connecting a datagram socket sends nothing; it only asks the routing table.
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  const bool routed = descriptor >= 0 && ::connect(descriptor, addresses->ai_addr, addresses->ai_addrlen) == 0 &&
                      ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&local), &length) == 0;
  const int why = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!routed) throw CommError(text("no route to rank 0's host ", host, ": ", std::strerror(why)));
  return printed(reinterpret_cast<sockaddr*>(&local), length);
}

std::string address_of_interface(const std::string& name) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) throw CommError(text("cannot list network interfaces: ", std::strerror(errno)));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<std::string> names;
  for (const auto* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    if (name == entry->ifa_name) return printed(entry->ifa_addr, sizeof(sockaddr_in));
    names.emplace_back(entry->ifa_name);
  }
  throw UsageError(text("comm.interface: there is no network interface '", name, "' with an IPv4 address; found ",
                        join(names, ", ")));
}

}  // namespace shade::comm
