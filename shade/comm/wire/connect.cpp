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
#include <thread>

#include "shade/base/log.h"
#include "shade/base/strings.h"
#include "shade/comm/errors.h"
#include "shade/comm/job/roll_call.h"
#include "shade/comm/socket.h"
#include "shade/comm/store.h"

namespace shade::comm::wire {
namespace {

constexpr std::chrono::milliseconds kRound{50};  // between two calls of interrupt
constexpr const char* kAddress = "wire";         // of each rank
constexpr const char* kAddresses = "wires";      // of all ranks, collected by the group's first
constexpr size_t kAccepted = 64;                 // connections accepted in one round

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
  template <size_t N>
  std::span<const uint8_t, N> received() const {
    return std::span(bytes_).template first<N>();
  }

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
enum class Stage { hello, answer, confirmation, welcome };

// A connection whose handshake is under way. `next` is called when a message of it is complete, and prepares the one
// that follows; it returns `waiting` if there is one.
template <class Handshake>
struct Attempt {
  template <class Next>
  State advance(Next next) {
    for (;;) {
      const auto progress = piece.move(*socket);
      if (progress == Piece::Progress::closed) return State::closed;
      if (progress == Piece::Progress::waiting) return State::waiting;
      if (const auto state = next(); state != State::waiting) return state;
    }
  }
  void send(Stage what, const auto& bytes) {
    stage = what;
    piece.send(bytes);
  }
  void receive(Stage what, size_t size) {
    stage = what;
    piece.receive(size);
  }

  Descriptor socket;
  Handshake handshake;
  Piece piece{};
  Stage stage = Stage::hello;
  bool ready = true;  // the last poll said so
};

// A process has connected to us.
struct Arrival : Attempt<ServerHandshake> {
  Arrival(Descriptor accepted, ServerHandshake with)
      : Attempt{.socket = std::move(accepted), .handshake = std::move(with)} {
    receive(Stage::hello, kHello);
  }

  State advance() {
    return Attempt::advance([this] {
      switch (stage) {
        case Stage::hello: {
          const auto answer = handshake.answer(piece.received<kHello>());
          if (!answer) return State::refused;
          send(Stage::answer, *answer);
          return State::waiting;
        }
        case Stage::answer: receive(Stage::confirmation, kConfirmation); return State::waiting;
        case Stage::confirmation: {
          const auto welcome = handshake.welcome(piece.received<kConfirmation>());
          if (!welcome) return State::refused;
          send(Stage::welcome, *welcome);
          return State::waiting;
        }
        case Stage::welcome: return State::proven;
      }
      return State::refused;
    });
  }

  bool answered() const { return stage != Stage::hello; }
};

// We connect to a rank.
struct Departure : Attempt<ClientHandshake> {
  Departure(Descriptor opened, int to, ClientHandshake with)
      : Attempt{.socket = std::move(opened), .handshake = std::move(with)}, server(to) {
    send(Stage::hello, handshake.hello());
  }

  State advance() {
    return Attempt::advance([this] {
      switch (stage) {
        case Stage::hello: receive(Stage::answer, kAnswer); return State::waiting;
        case Stage::answer: {
          const auto confirmation = handshake.confirm(piece.received<kAnswer>());
          if (!confirmation) return State::refused;
          send(Stage::confirmation, *confirmation);
          return State::waiting;
        }
        case Stage::confirmation: receive(Stage::welcome, kWelcome); return State::waiting;
        case Stage::welcome: return handshake.welcomed(piece.received<kWelcome>()) ? State::proven : State::refused;
      }
      return State::refused;
    });
  }

  int server;
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
        missing_(size_ - 1),
        connections_(options.global_ranks.size()) {
    const auto listening = listen_on(options.address, 0);
    listener_.emplace(listening.descriptor);
    make_nonblocking(**listener_);
    store.set(RollCall::key_of(kAddress, options.rank), text(options.address, " ", listening.port));
    if (options.rank == 0)
      collect_addresses(store);
    else
      read_addresses(store);
  }

  std::vector<std::optional<Connection>> run() {
    for (int server = 0; server < options_.rank; ++server) due_.push_back(server);
    while (missing_ > 0) {
      options_.interrupt();
      if (Clock::now() > deadline_) throw late(absent());
      if (Clock::now() >= retry_) depart();
      poll_once();
      accept_some();
      advance_departures();
      advance_arrivals();
    }
    if (!arrivals_.empty()) refuse();
    return std::move(connections_);
  }

 private:
  int global(int rank) const { return options_.global_ranks[static_cast<size_t>(rank)]; }
  std::optional<Connection>& connection(int rank) { return connections_[static_cast<size_t>(rank)]; }

  std::vector<int> absent() const {
    std::vector<int> out;
    for (int rank = 0; rank < size_; ++rank)
      if (rank != options_.rank && !connections_[static_cast<size_t>(rank)]) out.push_back(rank);
    return out;
  }

  CommError late(std::vector<int> ranks) const {
    for (int& rank : ranks) rank = global(rank);
    return CommError(text("group ", options_.group, ": ", ranks.size() == 1 ? "rank " : "ranks ", ranges(ranks),
                          " did not connect with rank ", global(options_.rank), " within ", to_string(options_.limit),
                          " (--comm.rendezvous-timeout changes the limit)"));
  }

  // The group's first rank reads each address once and publishes all of them: O(W) requests, as ranks meet
  // (comm/job/rendezvous.h).
  void collect_addresses(c10d::Store& store) {
    std::vector<std::string> all(static_cast<size_t>(size_));
    RollCall ranks(store, kAddress, size_, [&](int rank, const std::optional<std::string>& address) {
      // Reading a value that doesn't open again names its key.
      all[static_cast<size_t>(rank)] = address ? *address : store.get_to_str(RollCall::key_of(kAddress, rank));
    });
    for (auto pause = std::chrono::milliseconds(1); !ranks.complete(); pause = std::min(2 * pause, kRound)) {
      options_.interrupt();
      if (Clock::now() > deadline_) throw late(ranks.missing());
      std::this_thread::sleep_for(pause);
    }
    store.set(kAddresses, join(all, "\n"));
  }

  void read_addresses(c10d::Store& store) {
    while (!wait_for(store, kAddresses, std::min<Seconds>(deadline_ - Clock::now(), Seconds(1)))) {
      options_.interrupt();
      if (Clock::now() > deadline_) throw late({0});
    }
    for (const auto& line : split(store.get_to_str(kAddresses), '\n')) {
      std::istringstream words(line);
      Address address;
      words >> address.host >> address.port;
      addresses_.push_back(std::move(address));
    }
    SHADE_CHECK(addresses_.size() == connections_.size(), "as many addresses as ranks");
  }

  void depart() {
    for (const int server : std::exchange(due_, {})) {
      const auto& [host, port] = addresses_[static_cast<size_t>(server)];
      departures_.emplace_back(Descriptor(begin_connecting(host, port)), server,
                               ClientHandshake(options_.secret, options_.rank, server, offer_));
    }
  }

  void poll_once() {
    std::vector<pollfd> watched;
    const auto watch = [&](const auto& attempts) {
      for (const auto& attempt : attempts)
        watched.push_back({*attempt.socket, static_cast<short>(attempt.piece.sends() ? POLLOUT : POLLIN), 0});
    };
    watch(departures_);
    watch(arrivals_);
    // What could not be accepted stays in the queue of the listener: it is asked again in the next round.
    if (!std::exchange(exhausted_, false)) watched.push_back({**listener_, POLLIN, 0});
    ::poll(watched.data(), watched.size(), static_cast<int>(kRound.count()));
    size_t at = 0;
    for (auto& attempt : departures_) attempt.ready = watched[at++].revents != 0;
    for (auto& attempt : arrivals_) attempt.ready = watched[at++].revents != 0;
  }

  void accept_some() {
    for (size_t i = 0; i < kAccepted; ++i) {
      const int accepted = ::accept4(**listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (accepted < 0) {
        exhausted_ = errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
        if (exhausted_) drop_unanswered();
        return;
      }
      arrivals_.emplace_back(Descriptor(accepted), ServerHandshake(options_.secret, options_.rank, size_, offer_));
      if (arrivals_.size() > most_arrivals(options_.rank, size_)) drop_unanswered();
    }
  }

  // The oldest connection that has said nothing right. If it is a rank's all the same, the rank connects again; one
  // that was answered is never dropped while it may be a rank's.
  void drop_unanswered() {
    const auto oldest =
        std::find_if(arrivals_.begin(), arrivals_.end(), [](const Arrival& arrival) { return !arrival.answered(); });
    if (oldest != arrivals_.end())
      arrivals_.erase(oldest);
    else if (!arrivals_.empty())
      arrivals_.pop_back();
    refuse();
  }

  void refuse() {
    if (std::exchange(refused_, true)) return;  // one warning for all
    log::warning(
        "group ", options_.group, ": rank ", global(options_.rank),
        " refused a connection: the process that opened it does not have the job secret. Nothing was sent to it "
        "(SECURITY.md)");
  }

  void advance_departures() {
    for (auto at = departures_.begin(); at != departures_.end();) {
      const auto state = at->ready ? at->advance() : State::waiting;
      if (state == State::refused) {
        const auto& [host, port] = addresses_[static_cast<size_t>(at->server)];
        throw CommError(text("group ", options_.group, ": the process that answers at ", host, ":", port,
                             " in place of rank ", global(at->server),
                             " does not have the job secret. Nothing of the run was sent to it (SECURITY.md)"));
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
      const auto state = at->ready ? at->advance() : State::waiting;
      if (state == State::proven) keep(at->handshake.client(), std::move(at->socket), at->handshake.agreement());
      if (state == State::refused || state == State::closed) refuse();
      at = state == State::waiting ? std::next(at) : arrivals_.erase(at);
    }
  }

  // A rank that connects again has lost its earlier connection.
  void keep(int rank, Descriptor socket, const Agreement& agreement) {
    if (agreement.peer.seal != options_.seal)
      throw CommError(text("rank ", global(agreement.peer.seal ? rank : options_.rank), " seals its messages and rank ",
                           global(agreement.peer.seal ? options_.rank : rank),
                           " doesn't; give all ranks the same --comm.seal"));
    const int at_once = 1;
    ::setsockopt(*socket, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
    if (!connection(rank)) --missing_;
    connection(rank).emplace(std::move(socket), agreement);
  }

  const ConnectOptions& options_;
  const int size_;
  const Offer offer_;
  const Clock::time_point deadline_;
  std::optional<Descriptor> listener_;
  std::vector<Address> addresses_;  // of all ranks; the group's first needs none
  std::vector<int> due_;            // lower ranks to connect to at retry_
  Clock::time_point retry_{};
  std::list<Departure> departures_;
  std::list<Arrival> arrivals_;
  bool refused_ = false, exhausted_ = false;
  int missing_;  // ranks
  std::vector<std::optional<Connection>> connections_;
};

}  // namespace

size_t most_arrivals(int rank, int size) { return 64 + static_cast<size_t>(size - 1 - rank); }

std::vector<std::optional<Connection>> connect_group(c10d::Store& store, const ConnectOptions& options) {
  try {
    return Connecting(store, options).run();
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {  // of the store
    throw PeerLost(text("group ", options.group,
                        ": the store is gone while ranks connect; the process that hosts it, rank "
                        "0 or the launcher, has ended"));
  }
}

}  // namespace shade::comm::wire
