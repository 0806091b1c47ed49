// Somebody who may reach the ports of a job but has no part in it: another user of the machine, or another host.
//   intruder SEED SECONDS FILE                       every listener on loopback, as the kernel lists them for every
//   user intruder SEED SECONDS FILE ADDRESS FIRST LAST    every open port of a range at another address
// Connects to each listener at once, in several manners chosen from the seed, until the time is over or SIGTERM comes.
// Prints a line of JSON per connection; FILE gets all that it has read. Started by root it becomes `nobody`.
#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace {

constexpr size_t kMostConnections = 600, kMostKept = 64 << 20;
constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 100'000};  // the job wants the cores too

// What it does on a connection. `gloo` takes a rank's place in a job of libtorch's Gloo, whose greeting is the number
// of the connection (`number`) and nothing else.
enum class Manner { silent, garbage, gloo, wrong_proof, replay, half, reset };
constexpr std::array kNames{"silent", "garbage", "gloo", "wrong_proof", "replay", "half", "reset"};

struct Connection {
  int socket = -1;
  uint16_t port = 0;
  Manner manner = Manner::silent;
  std::string unsent;
  std::string kept;       // all that was read
  size_t parsed = 0;      // of it, as messages of Gloo
  uint64_t injected = 0;  // bytes sent in the place of a rank's
  bool reset_soon = false;
};

template <class T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

class Intruder {
 public:
  explicit Intruder(uint64_t seed) : random_(seed), rarity_(1 + random_() % 6) {}

  void attack(const sockaddr_in& address) {
    ++listeners_;
    std::vector<std::pair<Manner, uint64_t>> plan;
    for (const auto manner :
         {Manner::silent, Manner::garbage, Manner::wrong_proof, Manner::replay, Manner::half, Manner::reset})
      for (auto times = random_() % 3; times > 0; --times) plan.emplace_back(manner, 0);
    std::shuffle(plan.begin(), plan.end(), random_);
    if (random_() % rarity_ == 0)  // who comes first gets the place
      for (uint64_t number = 4; number-- > 0;) plan.insert(plan.begin(), {Manner::gloo, number});
    for (const auto& [manner, number] : plan) connect_to(address, manner, number);
  }

  void serve() {
    std::vector<pollfd> polled;
    std::vector<size_t> which;
    for (size_t i = 0; i < connections_.size(); ++i) {
      if (connections_[i].socket < 0) continue;
      polled.push_back(
          {connections_[i].socket, static_cast<short>(connections_[i].unsent.empty() ? POLLIN : POLLIN | POLLOUT), 0});
      which.push_back(i);
    }
    if (::ppoll(polled.data(), polled.size(), &kPause, nullptr) <= 0) return;
    for (size_t i = 0; i < polled.size(); ++i)
      if (polled[i].revents != 0) move(connections_[which[i]]);
  }

  bool full() const { return connections_.size() >= kMostConnections; }

  void report(std::ostream& out) const {
    size_t read = 0, most = 0;
    for (const auto& c : connections_) {
      std::printf("{\"port\":%d,\"manner\":\"%s\",\"read\":%zu,\"injected\":%" PRIu64 ",\"closed\":%s}\n", c.port,
                  kNames[static_cast<size_t>(c.manner)], c.kept.size(), c.injected, c.socket < 0 ? "true" : "false");
      out << c.kept;
      read += c.kept.size();
      most = std::max(most, c.kept.size());
    }
    std::printf("{\"listeners\":%zu,\"connections\":%zu,\"read\":%zu,\"most\":%zu}\n", listeners_, connections_.size(),
                read, most);
  }

 private:
  std::string noise(size_t count) {
    std::string made(count, '\0');
    for (auto& c : made) c = static_cast<char>(random_());
    return made;
  }

  // The first message of our handshake: who, to whom, a greeting and a proof, here without the secret.
  std::string hello() {
    const auto from = static_cast<uint32_t>(1 + random_() % 3);
    return bytes_of(from) + bytes_of(static_cast<uint32_t>(random_() % from)) + noise(65);
  }

  void connect_to(const sockaddr_in& address, Manner manner, uint64_t number) {
    if (full()) return;
    const int made = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made < 0) return;
    if (::connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      ::close(made);
      return;
    }
    ::fcntl(made, F_SETFL, O_NONBLOCK);
    Connection c{.socket = made, .port = ntohs(address.sin_port), .manner = manner};
    switch (manner) {
      case Manner::silent: break;
      case Manner::garbage: c.unsent = noise(1 + random_() % 4096); break;
      case Manner::gloo: c.unsent = bytes_of(number); break;
      case Manner::wrong_proof: c.unsent = hello(); break;
      case Manner::replay: c.unsent = hello(); break;
      case Manner::half: c.unsent = hello().substr(0, 1 + random_() % 71); break;
      case Manner::reset:
        c.unsent = hello().substr(0, random_() % 73);
        c.reset_soon = true;
        break;
    }
    connections_.push_back(std::move(c));
    move(connections_.back());
  }

  void move(Connection& c) {
    static std::string buffer(1 << 18, '\0');
    while (!c.unsent.empty()) {
      const auto sent = ::send(c.socket, c.unsent.data(), c.unsent.size(), MSG_NOSIGNAL);
      if (sent <= 0) break;
      c.unsent.erase(0, static_cast<size_t>(sent));
    }
    if (c.reset_soon) {
      const linger at_once{.l_onoff = 1, .l_linger = 0};
      ::setsockopt(c.socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      return close(c);
    }
    for (;;) {
      const auto count = ::recv(c.socket, buffer.data(), buffer.size(), 0);
      if (count < 0 && errno == EAGAIN) break;
      if (count <= 0) return close(c);
      if (c.kept.size() < kMostKept) c.kept.append(buffer.data(), static_cast<size_t>(count));
      answer(c);
    }
  }

  void answer(Connection& c) {
    if (c.manner == Manner::gloo) return as_gloo(c);
    if (c.kept.size() < 65 || c.parsed > 0) return;
    c.parsed = 65;
    heard_.push_back(c.kept.substr(0, 65));
    if (c.manner == Manner::wrong_proof) c.unsent = noise(32);
    // A proof that a rank made for another connection.
    if (c.manner == Manner::replay) c.unsent = heard_[random_() % heard_.size()].substr(33);
    if (random_() % 2 == 0) c.unsent += noise(4096);  // else it waits for what a rank would be sent
  }

  // Messages of Gloo: length, kind, slot, offset, bytes, offset there. It takes what a rank offers, and sends zeros for
  // what a rank waits for.
  void as_gloo(Connection& c) {
    using Header = std::array<uint64_t, 6>;
    constexpr uint64_t kData = 1, kMaySend = 2, kMayReceive = 3, kMost = 256 << 20;
    for (Header h; c.kept.size() - c.parsed >= sizeof h;) {
      std::memcpy(h.data(), c.kept.data() + c.parsed, sizeof h);
      if (h[0] < sizeof h || h[0] > kMost || h[4] > kMost) return;
      if (c.kept.size() - c.parsed < h[0]) return;
      c.parsed += h[0];
      if (h[1] == kMaySend) c.unsent += bytes_of(Header{sizeof h, kMayReceive, h[2], 0, h[4], 0});
      if (h[1] == kMayReceive) {
        c.unsent += bytes_of(Header{sizeof h, kMaySend, h[2], 0, h[4], 0});
        c.unsent += bytes_of(Header{sizeof h + h[4], kData, h[2], 0, h[4], 0}) + std::string(h[4], '\0');
        c.injected += h[4];
      }
    }
    while (!c.unsent.empty()) {
      const auto sent = ::send(c.socket, c.unsent.data(), c.unsent.size(), MSG_NOSIGNAL);
      if (sent <= 0) break;
      c.unsent.erase(0, static_cast<size_t>(sent));
    }
  }

  static void close(Connection& c) {
    ::close(c.socket);
    c.socket = -1;
  }

  std::mt19937_64 random_;
  // Of listeners whose place is taken: a job that ends at the first of its groups shows nothing of later ones.
  uint64_t rarity_;
  std::vector<Connection> connections_;
  std::vector<std::string> heard_;  // answers of ranks to greetings
  size_t listeners_ = 0;
};

sockaddr_in address_of(uint32_t host, uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = host;
  out.sin_port = htons(port);
  return out;
}

// The listeners of this network namespace, from the kernel's tables as `ss` reads them: any user may, and in a
// fortieth of the time that /proc/net/tcp takes. Those of IPv6 that are bound to no address take IPv4 as well.
class Tables {
 public:
  Tables() : socket_(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)) {}

  // Ports by inode: a port that is opened again is another listener.
  std::map<uint32_t, uint16_t> listeners() const {
    std::map<uint32_t, uint16_t> out;
    add(AF_INET, out);
    add(AF_INET6, out);
    return out;
  }

 private:
  void add(uint8_t family, std::map<uint32_t, uint16_t>& out) const {
    struct {
      nlmsghdr header{};
      inet_diag_req_v2 wanted{};
    } request;
    request.header = {
        .nlmsg_len = sizeof request, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP};
    request.wanted.sdiag_family = family;
    request.wanted.sdiag_protocol = IPPROTO_TCP;
    request.wanted.idiag_states = 1u << TCP_LISTEN;
    if (::send(socket_, &request, sizeof request, 0) < 0) fail();
    for (;;) {
      alignas(nlmsghdr) static std::array<char, 1 << 16> answer;
      const auto count = ::recv(socket_, answer.data(), answer.size(), 0);
      if (count <= 0) fail();
      auto left = static_cast<uint32_t>(count);
      for (auto* at = reinterpret_cast<nlmsghdr*>(answer.data()); NLMSG_OK(at, left); at = NLMSG_NEXT(at, left)) {
        if (at->nlmsg_type == NLMSG_DONE) return;
        if (at->nlmsg_type == NLMSG_ERROR) fail();
        const auto* found = static_cast<const inet_diag_msg*>(NLMSG_DATA(at));
        out[found->idiag_inode] = ntohs(found->id.idiag_sport);
      }
    }
  }

  [[noreturn]] static void fail() {
    std::perror("intruder: the kernel does not list sockets (INET_DIAG)");
    std::exit(1);
  }

  int socket_;
};

// Without root's rights the kernel refuses nothing less than it would to any other user.
void become_nobody() {
  constexpr unsigned kNobody = 65534;
  if (::getuid() != 0) return;
  if (::setgroups(0, nullptr) != 0 || ::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) {
    std::perror("intruder: to become nobody");
    std::exit(1);
  }
}

volatile std::sig_atomic_t ended = 0;

}  // namespace

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  if (argc != 4 && argc != 7) return 64;
  std::signal(SIGTERM, [](int) { ended = 1; });
  std::ofstream file(argv[3], std::ios::binary);  // before it loses the right to write there
  become_nobody();
  Intruder intruder(std::strtoull(argv[1], nullptr, 10));
  const auto end = Clock::now() + std::chrono::duration<double>(std::min(120.0, std::atof(argv[2])));
  if (argc == 4) {
    const Tables tables;
    std::set<uint32_t> seen;
    while (Clock::now() < end && ended == 0) {
      for (const auto& [inode, port] : tables.listeners())
        if (seen.insert(inode).second) intruder.attack(address_of(htonl(INADDR_LOOPBACK), port));
      intruder.serve();
    }
  } else {
    in_addr host{};
    if (::inet_pton(AF_INET, argv[4], &host) != 1) return 64;
    const auto first = static_cast<uint16_t>(std::atoi(argv[5])), last = static_cast<uint16_t>(std::atoi(argv[6]));
    std::map<uint16_t, Clock::time_point> again;  // a port may be another group's soon
    while (Clock::now() < end && ended == 0) {
      for (uint16_t port = first; port <= last; ++port) {
        if (again.contains(port) && again[port] > Clock::now()) continue;
        const auto address = address_of(host.s_addr, port);
        const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (::connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
          intruder.attack(address);
          again[port] = Clock::now() + std::chrono::milliseconds(300);
        }
        ::close(probe);
      }
      intruder.serve();
    }
  }
  intruder.serve();
  intruder.report(file);
  return file.flush() ? 0 : 1;
}
