#include "shade/comm/wire/connect.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <sstream>

#include "shade/base/log.h"
#include "shade/base/strings.h"
#include "shade/comm/errors.h"
#include "shade/comm/socket.h"
#include "shade/comm/store.h"

namespace shade::comm::wire {
namespace {

constexpr std::chrono::milliseconds kRound{50};  // between two calls of interrupt
constexpr size_t kUnproven = 64;                 // connections kept open besides two for each rank

std::string address_key(int rank) { return text("wire/", rank); }

// A fixed number of bytes to send or to receive.
class Piece {
 public:
  template <size_t N>
  void send(const std::array<uint8_t, N>& bytes) {
    static_assert(N <= kHello);
    std::copy(bytes.begin(), bytes.end(), bytes_.begin());
    restart(N, true);
  }
  void receive(size_t size) { restart(size, false); }

  bool sends() const { return sends_; }
  const uint8_t* data() const { return bytes_.data(); }

  enum class Progress { complete, waiting, closed };
  Progress move(int socket) {
    while (done_ < size_) {
      const auto count = sends_ ? ::send(socket, bytes_.data() + done_, size_ - done_, MSG_NOSIGNAL | MSG_DONTWAIT)
                                : ::recv(socket, bytes_.data() + done_, size_ - done_, MSG_DONTWAIT);
      if (count < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOTCONN)) return Progress::waiting;
      if (count <= 0) return Progress::closed;
      done_ += static_cast<size_t>(count);
    }
    return Progress::complete;
  }

 private:
  void restart(size_t size, bool sends) {
    size_ = size;
    done_ = 0;
    sends_ = sends;
  }
  std::array<uint8_t, kHello> bytes_{};
  size_t size_ = 0, done_ = 0;
  bool sends_ = false;
};

enum class State { waiting, proven, refused, closed };

// Somebody has connected to us.
struct Arrival {
  Arrival(Descriptor accepted, ServerHandshake with) : socket(std::move(accepted)), handshake(std::move(with)) {
    piece.receive(kHello);
  }

  State advance() {
    for (;;) {
      const auto progress = piece.move(*socket);
      if (progress != Piece::Progress::complete)
        return progress == Piece::Progress::closed ? State::closed : State::waiting;
      if (answered && !piece.sends())
        return handshake.confirmed(std::span<const uint8_t, kConfirmation>(piece.data(), kConfirmation))
                   ? State::proven
                   : State::refused;
      if (piece.sends()) {
        piece.receive(kConfirmation);
        continue;
      }
      const auto answer = handshake.answer(std::span<const uint8_t, kHello>(piece.data(), kHello));
      if (!answer) return State::refused;
      piece.send(*answer);
      answered = true;
    }
  }

  Descriptor socket;
  ServerHandshake handshake;
  Piece piece;
  bool answered = false;
};

// We connect to a rank.
struct Departure {
  Departure(Descriptor opened, int to, ClientHandshake with)
      : socket(std::move(opened)), server(to), handshake(std::move(with)) {
    piece.send(handshake.hello());
  }

  State advance() {
    for (;;) {
      const auto progress = piece.move(*socket);
      if (progress != Piece::Progress::complete)
        return progress == Piece::Progress::closed ? State::closed : State::waiting;
      if (confirms) return State::proven;
      if (piece.sends()) {
        piece.receive(kAnswer);
        continue;
      }
      const auto confirmation = handshake.confirm(std::span<const uint8_t, kAnswer>(piece.data(), kAnswer));
      if (!confirmation) return State::refused;
      piece.send(*confirmation);
      confirms = true;
    }
  }

  Descriptor socket;
  int server;
  ClientHandshake handshake;
  Piece piece;
  bool confirms = false;
};

struct Address {
  std::string host;
  uint16_t port = 0;
};

class Connecting {
 public:
  Connecting(c10d::Store& store, const ConnectOptions& options)
      : options_(options),
        size_(static_cast<int>(options.global_ranks.size())),
        offer_(offer_of_this_host(options.seal)),
        deadline_(Clock::now() + std::chrono::duration_cast<Clock::duration>(options.limit)),
        connections_(options.global_ranks.size()) {
    const auto listening = listen_on(options.address, 0);
    listener_.emplace(listening.descriptor);
    make_nonblocking(**listener_);
    store.set(address_key(options.rank), text(options.address, " ", listening.port));
    find_addresses(store);
  }

  std::vector<std::optional<Connection>> run() {
    for (int server = 0; server < options_.rank; ++server) due_.push_back(server);
    while (missing() > 0) {
      options_.interrupt();
      if (Clock::now() > deadline_) throw late();
      if (Clock::now() >= retry_) depart();
      poll_once();
      accept_all();
      advance_departures();
      advance_arrivals();
    }
    if (!arrivals_.empty()) refuse();
    return std::move(connections_);
  }

 private:
  int global(int rank) const { return options_.global_ranks[static_cast<size_t>(rank)]; }
  std::optional<Connection>& connection(int rank) { return connections_[static_cast<size_t>(rank)]; }
  int missing() const {
    const auto absent = std::count_if(connections_.begin(), connections_.end(), [](const auto& c) { return !c; });
    return static_cast<int>(absent) - 1;  // without the own rank
  }

  CommError late() const {
    std::vector<int> absent;
    for (int rank = 0; rank < size_; ++rank)
      if (rank != options_.rank && !connections_[static_cast<size_t>(rank)]) absent.push_back(global(rank));
    return CommError(text("group ", options_.group, ": ", absent.size() == 1 ? "rank " : "ranks ", ranges(absent),
                          " did not connect with rank ", global(options_.rank), " within ", to_string(options_.limit),
                          " (--comm.rendezvous-timeout changes the limit)"));
  }

  // Of all lower ranks.
  void find_addresses(c10d::Store& store) {
    std::vector<std::string> keys;
    for (int rank = 0; rank < options_.rank; ++rank) {
      keys.push_back(address_key(rank));
      while (!wait_for(store, keys.back(), deadline_ - Clock::now())) {
        options_.interrupt();
        if (Clock::now() > deadline_) throw late();
      }
    }
    if (keys.empty()) return;
    for (const auto& value : store.multiGet(keys)) {
      std::istringstream words(std::string(value.begin(), value.end()));
      Address address;
      words >> address.host >> address.port;
      addresses_.push_back(std::move(address));
    }
  }

  void depart() {
    for (const int server : std::exchange(due_, {})) {
      const auto& [host, port] = addresses_[static_cast<size_t>(server)];
      departures_.emplace_back(Descriptor(begin_connecting(host, port)), server,
                               ClientHandshake(options_.secret, options_.rank, server, offer_));
    }
  }

  void poll_once() {
    std::vector<pollfd> watched{{**listener_, POLLIN, 0}};
    const auto watch = [&](const auto& attempts) {
      for (const auto& attempt : attempts)
        watched.push_back({*attempt.socket, static_cast<short>(attempt.piece.sends() ? POLLOUT : POLLIN), 0});
    };
    watch(departures_);
    watch(arrivals_);
    ::poll(watched.data(), watched.size(), static_cast<int>(kRound.count()));
  }

  void accept_all() {
    for (;;) {
      const int accepted = ::accept4(**listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (accepted < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
      if (accepted < 0 && (errno == EMFILE || errno == ENFILE) && !arrivals_.empty()) {
        drop_oldest();
        continue;
      }
      if (accepted < 0) return;
      arrivals_.emplace_back(Descriptor(accepted), ServerHandshake(options_.secret, options_.rank, size_, offer_));
      if (arrivals_.size() > kUnproven + 2 * static_cast<size_t>(size_)) drop_oldest();
    }
  }

  // A rank that was meant connects again.
  void drop_oldest() {
    arrivals_.pop_front();
    refuse();
  }

  void refuse() {
    if (std::exchange(refused_, true)) return;  // one warning for all
    log::warning(
        "group ", options_.group, ": rank ", global(options_.rank),
        " refused a connection: the process that opened it does not have the job secret. Nothing was sent to it "
        "(SECURITY.md)");
  }

  CommError no_secret(const std::string& where, int rank) const {
    return CommError(text("group ", options_.group, ": the process that ", where, " in place of rank ", global(rank),
                          " does not have the job secret. Nothing of the run was sent to it (SECURITY.md)"));
  }

  void advance_departures() {
    for (auto at = departures_.begin(); at != departures_.end();) {
      const auto state = at->advance();
      if (state == State::refused) {
        const auto& [host, port] = addresses_[static_cast<size_t>(at->server)];
        throw no_secret(text("answers at ", host, ":", port), at->server);
      }
      if (state == State::proven) keep(at->server, std::move(at->socket), at->handshake.agreement());
      if (state == State::closed) {
        due_.push_back(at->server);
        retry_ = Clock::now() + kRound;
      }
      at = state == State::waiting ? std::next(at) : departures_.erase(at);
    }
  }

  void advance_arrivals() {
    for (auto at = arrivals_.begin(); at != arrivals_.end();) {
      const auto state = at->advance();
      if (state == State::waiting) {
        ++at;
        continue;
      }
      const int client = at->handshake.client();
      // The rank that said the hello takes itself for connected.
      if (state == State::refused && at->answered) throw no_secret("connects", client);
      if (state == State::proven && !connection(client))
        keep(client, std::move(at->socket), at->handshake.agreement());
      else
        refuse();
      at = arrivals_.erase(at);
    }
  }

  void keep(int rank, Descriptor socket, const Agreement& agreement) {
    if (agreement.peer.seal != options_.seal)
      throw CommError(text("rank ", global(agreement.peer.seal ? rank : options_.rank), " seals its messages and rank ",
                           global(agreement.peer.seal ? options_.rank : rank),
                           " doesn't; give all ranks the same --comm.seal"));
    const int at_once = 1;
    ::setsockopt(*socket, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
    connection(rank).emplace(std::move(socket), agreement);
  }

  const ConnectOptions& options_;
  const int size_;
  const Offer offer_;
  const Clock::time_point deadline_;
  std::optional<Descriptor> listener_;
  std::vector<Address> addresses_;  // of lower ranks
  std::vector<int> due_;            // lower ranks to connect to at retry_
  Clock::time_point retry_{};
  std::list<Departure> departures_;
  std::list<Arrival> arrivals_;
  bool refused_ = false;
  std::vector<std::optional<Connection>> connections_;
};

}  // namespace

std::vector<std::optional<Connection>> connect_group(c10d::Store& store, const ConnectOptions& options) {
  return Connecting(store, options).run();
}

}  // namespace shade::comm::wire
