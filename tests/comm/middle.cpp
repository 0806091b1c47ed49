#include "tests/comm/middle.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>
#include <vector>

#include "shade/base/descriptor.h"
#include "shade/base/error.h"

namespace shade::test {
namespace {

// Of the protocol (shade/comm/wire/handshake.h, channel.h).
constexpr size_t kHello = 73, kAnswer = 65, kConfirmation = 32, kWelcome = 32, kHeader = 16, kRecord = 65536, kTag = 16;
constexpr uint64_t kLongest = 1 << 30;
constexpr const char *kHostA = "10.77.0.1", *kHostB = "10.77.0.2";

sockaddr_in address_of(const char* host, int port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  ::inet_pton(AF_INET, host, &out.sin_addr);
  out.sin_port = htons(static_cast<uint16_t>(port));
  return out;
}

int new_socket() {
  const int made = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  SHADE_CHECK(made >= 0, "socket: ", std::strerror(errno));
  const int yes = 1;
  ::setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  ::setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return made;
}

uint64_t number_at(const std::string& bytes, size_t at) {
  uint64_t out = 0;
  std::memcpy(&out, bytes.data() + at, sizeof out);
  return out;
}

// One direction of a connection.
struct Way {
  int from = -1, to = -1;
  bool to_server = false;
  std::vector<size_t> handshake;  // lengths of what comes before messages
  size_t handshakes = 0;          // of it, so far
  bool plain = false;             // passed on as it is
  bool over = false;              // nothing more will come
  std::string in, out;
  std::string held;                       // to follow the next message
  std::map<uint64_t, std::string> heard;  // messages by number
};

struct Link {
  std::array<Way, 2> ways;
  bool broken = false;
};

}  // namespace

class Middle::Relay {
 public:
  Relay(const Host& towards_a, const Host& towards_b, const Options& options)
      : towards_a_(towards_a), towards_b_(towards_b), options_(options) {
    towards_a.enter([&] { listen(kHostB); });
    towards_b.enter([&] { listen(kHostA); });
  }
  ~Relay() {
    for (const auto& listener : listeners_) ::close(listener.socket);
    for (auto& link : links_) end(link);
  }

  void move() {
    std::vector<pollfd> watched;
    for (const auto& listener : listeners_) watched.push_back({listener.socket, POLLIN, 0});
    for (const auto& link : links_)
      for (const auto& way : link.ways) {
        watched.push_back({way.over ? -1 : way.from, POLLIN, 0});
        watched.push_back({way.out.empty() ? -1 : way.to, POLLOUT, 0});
      }
    if (::poll(watched.data(), watched.size(), 50) <= 0) return;
    size_t at = listeners_.size();
    for (auto& link : links_)
      for (auto& way : link.ways) {
        if (watched[at++].revents != 0) read(link, way);
        ++at;
        if (!link.broken) write(link, way);
      }
    for (size_t i = 0; i < listeners_.size(); ++i)
      if (watched[i].revents != 0) accept(listeners_[i]);
    for (auto link = links_.begin(); link != links_.end();) {
      const bool gone = link->broken || (link->ways[0].over && link->ways[1].over && link->ways[0].out.empty() &&
                                         link->ways[1].out.empty());
      if (gone) end(*link);
      link = gone ? links_.erase(link) : std::next(link);
    }
  }

  std::optional<Clock::time_point> disturbed;
  size_t messages = 0;
  bool understood = true;

 private:
  struct Listener {
    int socket = -1, port = 0;
    const char* host = nullptr;  // in whose place
  };

  void listen(const char* host) {
    std::vector<int> ports;
    for (int port = options_.first; port <= options_.last; ++port) ports.push_back(port);
    if (host == std::string(kHostA)) ports.push_back(options_.store);
    for (const int port : ports) {
      const Listener listener{new_socket(), port, host};
      const auto address = address_of(host, port);
      SHADE_CHECK(::bind(listener.socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                      ::listen(listener.socket, 64) == 0,
                  "port ", port, ": ", std::strerror(errno));
      listeners_.push_back(listener);
    }
  }

  void accept(const Listener& listener) {
    const int client = ::accept4(listener.socket, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    int server = -1;
    const auto& host = listener.host == std::string(kHostA) ? towards_a_ : towards_b_;
    host.enter([&] { server = new_socket(); });
    const auto address = address_of(listener.host, listener.port);
    if (::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      ::close(client);
      ::close(server);
      return;
    }
    for (const int socket : {client, server}) ::fcntl(socket, F_SETFL, O_NONBLOCK);
    const int yes = 1;
    ::setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    const bool plain = listener.port == options_.store;
    auto& link = links_.emplace_back();
    link.ways[0] = {
        .from = client, .to = server, .to_server = true, .handshake = {kHello, kConfirmation}, .plain = plain};
    link.ways[1] = {.from = server, .to = client, .to_server = false, .handshake = {kAnswer, kWelcome}, .plain = plain};
  }

  void read(Link& link, Way& way) {
    for (;;) {
      const auto count = ::recv(way.from, buffer_.data(), buffer_.size(), 0);
      if (count < 0 && errno == EAGAIN) break;
      if (count < 0) link.broken = true;
      if (count <= 0) {
        way.over = true;
        break;
      }
      way.in.append(buffer_.data(), static_cast<size_t>(count));
    }
    parse(link, way);
    if (way.over) way.out += std::exchange(way.in, {});
  }

  void write(Link& link, Way& way) {
    while (!way.out.empty()) {
      const auto sent = ::send(way.to, way.out.data(), way.out.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN) link.broken = true;
      if (sent <= 0) return;
      way.out.erase(0, static_cast<size_t>(sent));
    }
    if (way.over) ::shutdown(way.to, SHUT_WR);
  }

  // With a reset, as a cut connection ends.
  static void end(Link& link) {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    for (auto& way : link.ways) {
      if (link.broken) ::setsockopt(way.from, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      ::close(way.from);
    }
  }

  void parse(Link& link, Way& way) {
    while (!way.plain && !link.broken) {
      if (way.handshakes < way.handshake.size()) {
        const auto size = way.handshake[way.handshakes];
        if (way.in.size() < size) return;
        disturb_handshake(way);
        way.out += way.in.substr(0, size);
        way.in.erase(0, size);
        ++way.handshakes;
        continue;
      }
      if (way.in.size() < kHeader) return;
      const auto length = number_at(way.in, 0);
      if (length == 0 || length > kLongest) {
        understood = false;
        way.plain = true;
        break;
      }
      const auto size = kHeader + length + (options_.sealed ? kTag * ((length + kRecord - 1) / kRecord) : 0);
      if (way.in.size() < size) return;
      ++messages;
      pass_on(link, way, way.in.substr(0, size));
      way.in.erase(0, size);
    }
    way.out += std::exchange(way.in, {});
  }

  void disturb_handshake(Way& way) {
    const bool first = way.handshakes == 0;
    const auto trick = way.to_server ? (first ? Trick::flip_hello : Trick::flip_confirmation)
                                     : (first ? Trick::flip_answer : Trick::flip_welcome);
    const auto& wanted = options_.disturbance;
    if (trick != wanted.trick || disturbed) return;
    way.in.at(wanted.offset) = static_cast<char>(way.in.at(wanted.offset) ^ 1);
    disturbed = Clock::now();
  }

  void pass_on(Link& link, Way& way, std::string message) {
    const auto number = number_at(message, sizeof(uint64_t));
    way.heard[number] = message;
    const auto held = std::exchange(way.held, {});
    const auto& wanted = options_.disturbance;
    if (!disturbed && way.to_server == wanted.to_server && number >= wanted.number &&
        message.size() >= kHeader + wanted.at_least && disturb(link, way, message, number))
      disturbed = Clock::now();
    way.out += message + held;
  }

  // False: not with this message.
  bool disturb(Link& link, Way& way, std::string& message, uint64_t number) {
    const auto length = number_at(message, 0);
    const auto flip = [&](size_t at) { message.at(at) = static_cast<char>(message.at(at) ^ 1); };
    const auto replace = [&](const Way& by, uint64_t wanted) {
      const auto found = by.heard.find(wanted);
      if (found == by.heard.end() || found->second.size() != message.size() || found->second == message) return false;
      message = found->second;
      std::memcpy(message.data() + sizeof number, &number, sizeof number);
      return true;
    };
    switch (options_.disturbance.trick) {
      case Trick::flip_payload: flip(kHeader + std::min<size_t>(length, kRecord) / 2); return true;
      case Trick::flip_length: flip(0); return true;
      case Trick::flip_number: flip(sizeof number); return true;
      case Trick::flip_tag: flip(message.size() - 1); return true;
      case Trick::drop: message.clear(); return true;
      case Trick::repeat: message += message; return true;
      case Trick::swap: way.held = std::exchange(message, {}); return true;
      case Trick::truncate: message.resize(message.size() - length / 2); return true;
      case Trick::renumber: return number > 0 && replace(way, number - 1);
      case Trick::reflect: return replace(link.ways[way.to_server ? 1 : 0], number);
      case Trick::cross:
        for (const auto& other : links_)
          if (&other != &link && !other.ways[0].plain && replace(other.ways[way.to_server ? 0 : 1], number))
            return true;
        return false;
      case Trick::close: link.broken = true; return true;
      default: return false;
    }
  }

  const Host &towards_a_, &towards_b_;
  const Options options_;
  std::vector<Listener> listeners_;
  std::list<Link> links_;
  std::string buffer_ = std::string(1 << 18, '\0');
};

Middle::Middle(const Host& a, const Host& b, const Options& options) {
  lay_cable(a, text(kHostA, "/24"), towards_a_, text(kHostB, "/24"));
  lay_cable(b, text(kHostB, "/24"), towards_b_, text(kHostA, "/24"));
  for (const auto* host : {&a, &b}) host->choose_ports_from(options.first, options.last);
  relay_ = std::make_unique<Relay>(towards_a_, towards_b_, options);
  thread_ = std::thread([this] {
    while (!stopped_) relay_->move();
  });
}

Middle::~Middle() { stop(); }

void Middle::stop() {
  stopped_ = true;
  if (thread_.joinable()) thread_.join();
}

std::optional<Clock::time_point> Middle::disturbed() const { return relay_->disturbed; }
size_t Middle::messages() const { return relay_->messages; }
bool Middle::understood() const { return relay_->understood; }

}  // namespace shade::test
