#include "shade/cli/driver.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>

#include "shade/base/descriptor.h"
#include "shade/base/stop_signals.h"
#include "shade/cli/verb.h"
#include "shade/comm/job/forget_place.h"

namespace shade::cli {
namespace {

constexpr Seconds kAppears{60};  // for rank 0 to begin after the others

// A name without a file, the same for all ranks of a job on this host: it ends with the process that has it, however
// that ends.
class StatusSocket {
 public:
  explicit StatusSocket(const comm::Place& place) {
    const auto name =
        text("shade-driver-", ::getuid(), "-", place.origin, "-", place.store_host, "-", place.store_port);
    address_.sun_family = AF_UNIX;
    const auto length = std::min(name.size(), sizeof address_.sun_path - 1);
    std::memcpy(address_.sun_path + 1, name.data(), length);
    size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
    SHADE_CHECK(socket_, "socket: ", std::strerror(errno));
  }

  void listen(int others) const {
    SHADE_REQUIRE(::bind(*socket_, address(), size_) == 0 && ::listen(*socket_, others) == 0,
                  "another job of this user has the same MASTER_PORT on this host (", std::strerror(errno),
                  "); give one of them another");
  }
  // Accepting may wait: the others connect as they begin, and rank 0 has worked meanwhile.
  void tell(int others, int status) const {
    const timeval limit{.tv_sec = 5, .tv_usec = 0};
    ::setsockopt(*socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    for (int told = 0; told < others; ++told) {
      const Descriptor other(::accept4(*socket_, nullptr, nullptr, SOCK_CLOEXEC));
      if (!other) return;  // it has ended
      const auto byte = static_cast<unsigned char>(status);
      (void)::send(*other, &byte, 1, MSG_NOSIGNAL);
    }
  }
  int wait() const {
    const auto begin = Clock::now();
    while (::connect(*socket_, address(), size_) != 0) {
      if (Clock::now() - begin > kAppears)
        throw Error(text("rank 0 has not begun after ", to_string(kAppears), "; its messages say why"));
      std::this_thread::sleep_for(Seconds(0.05));
    }
    ucred peer{};
    socklen_t length = sizeof peer;
    const bool ours = ::getsockopt(*socket_, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == ::getuid();
    unsigned char status = 1;
    if (ours) (void)uninterrupted([&] { return ::recv(*socket_, &status, 1, 0); });
    return status;
  }

 private:
  const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&address_); }
  sockaddr_un address_{};
  socklen_t size_ = 0;
  Descriptor socket_{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
};

}  // namespace

int driven_by_first_rank(const char* verb, const std::function<int(int ranks)>& drive) {
  const auto place = comm::place_from_environment();
  if (place.size == 1) {
    comm::forget_place();
    return drive(1);
  }
  SHADE_REQUIRE(place.single_host(), place.origin, " started ranks on several hosts, and shade ", verb,
                " starts the ranks of its experiments itself, on one host; run it there without ", place.origin,
                "'s variables and with --ranks N");
  const StatusSocket socket(place);
  if (place.rank != 0) return socket.wait();
  socket.listen(place.size);
  comm::forget_place();
  try {
    const int status = drive(place.size);
    socket.tell(place.size - 1, status);
    return status;
  } catch (const UsageError&) {
    socket.tell(place.size - 1, kUsageStatus);
    throw;
  } catch (...) {
    socket.tell(place.size - 1, 1);
    throw;
  }
}

}  // namespace shade::cli
