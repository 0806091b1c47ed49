#include "tests/comm/sniffer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <memory>

#include "shade/base/error.h"

namespace shade::test {
namespace {

int open_socket(const std::string& network_namespace, const std::string& interface) {
  const int inside = ::open(("/var/run/netns/" + network_namespace).c_str(), O_RDONLY | O_CLOEXEC);
  SHADE_CHECK(inside >= 0 && ::setns(inside, CLONE_NEWNET) == 0, "setns: ", std::strerror(errno));
  ::close(inside);
  const int found = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
  SHADE_CHECK(found >= 0, "packet socket: ", std::strerror(errno));
  const int buffer = 256 << 20;
  ::setsockopt(found, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer);
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(::if_nametoindex(interface.c_str()));
  SHADE_CHECK(::bind(found, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0,
              "bind: ", std::strerror(errno));
  return found;
}

}  // namespace

// A thread of its own enters the namespace; the rest of the process stays where it is.
Sniffer::Sniffer(const std::string& network_namespace, const std::string& interface) {
  const auto ready = std::make_shared<std::promise<void>>();
  auto opened = ready->get_future();
  thread_ = std::thread([this, ready, network_namespace, interface] {
    try {
      socket_ = open_socket(network_namespace, interface);
    } catch (...) {
      ready->set_exception(std::current_exception());
      return;
    }
    ready->set_value();
    listen();
  });
  try {
    opened.get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

void Sniffer::listen() {
  std::string packet(1 << 17, '\0');
  while (!stopped_) {
    pollfd polled{socket_, POLLIN, 0};
    if (::poll(&polled, 1, 50) <= 0) continue;
    const auto count = ::recv(socket_, packet.data(), packet.size(), 0);
    if (count <= 0) continue;
    const std::string_view seen(packet.data(), static_cast<size_t>(count));
    packets_.append(seen).push_back('\0');
    constexpr size_t kEthernet = 14;
    constexpr char kTcp = 6;
    if (seen.size() < kEthernet + 40 || static_cast<uint8_t>(seen[kEthernet]) >> 4 != 4 || seen[kEthernet + 9] != kTcp)
      continue;
    const auto ip = seen.substr(kEthernet);
    const size_t tcp = 4 * (static_cast<size_t>(ip[0]) & 15);
    const auto length = std::min<size_t>(
        ip.size(), static_cast<size_t>(static_cast<uint8_t>(ip[2]) << 8 | static_cast<uint8_t>(ip[3])));
    const size_t payload = tcp + 4 * (static_cast<size_t>(static_cast<uint8_t>(ip[tcp + 12])) >> 4);
    if (payload < length) streams_[text(ip.substr(12, 8), ip.substr(tcp, 4))] += ip.substr(payload, length - payload);
  }
  tpacket_stats figures{};
  socklen_t size = sizeof figures;
  lost_ = ::getsockopt(socket_, SOL_PACKET, PACKET_STATISTICS, &figures, &size) != 0 || figures.tp_drops > 0;
}

void Sniffer::stop() {
  if (stopped_.exchange(true)) return;
  thread_.join();
  ::close(socket_);
}

bool Sniffer::saw(const std::string& bytes) const {
  return packets_.find(bytes) != std::string::npos || std::any_of(streams_.begin(), streams_.end(), [&](const auto& s) {
           return s.second.find(bytes) != std::string::npos;
         });
}

size_t Sniffer::bytes() const {
  size_t sum = 0;
  for (const auto& [name, payload] : streams_) sum += payload.size();
  return sum;
}

}  // namespace shade::test
