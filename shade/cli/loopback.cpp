// The loopback as ranks of one host use it: TCP without delays for gathering.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "shade/base/descriptor.h"
#include "shade/base/units.h"
#include "shade/cli/self_test.h"
#include "shade/comm/errors.h"
#include "shade/comm/socket.h"

namespace shade::cli {
namespace {

constexpr size_t kPiece = 1 << 20;
constexpr int kPieces = 128, kRounds = 200;
constexpr double kSlow = 0.5e9;  // bytes per second; ordinary machines have several times as many

class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {
    if (!descriptor_) throw comm::CommError(std::strerror(errno));
    const int on = 1;
    const timeval limit{.tv_sec = 5, .tv_usec = 0};
    ::setsockopt(*descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(*descriptor_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(*descriptor_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  }

  int descriptor() const { return *descriptor_; }
  void send(const char* bytes, size_t count) const {
    for (size_t done = 0; done < count;) {
      const auto sent = ::send(*descriptor_, bytes + done, count - done, MSG_NOSIGNAL);
      if (sent <= 0) throw comm::CommError(text("sending stopped: ", std::strerror(errno)));
      done += static_cast<size_t>(sent);
    }
  }
  void receive(char* bytes, size_t count) const {
    for (size_t done = 0; done < count;) {
      const auto got = ::recv(*descriptor_, bytes + done, count - done, 0);
      if (got <= 0) throw comm::CommError(text("receiving stopped: ", got == 0 ? "closed" : std::strerror(errno)));
      done += static_cast<size_t>(got);
    }
  }

 private:
  Descriptor descriptor_;
};

// Answers every piece with a byte, then every byte with one; ends when the other side does.
void serve_once(int listener) {
  try {
    const Socket peer(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    std::vector<char> piece(kPiece);
    for (int i = 0; i < kPieces; ++i) peer.receive(piece.data(), kPiece);
    peer.send(piece.data(), 1);
    for (int i = 0; i < kRounds; ++i) {
      peer.receive(piece.data(), 1);
      peer.send(piece.data(), 1);
    }
  } catch (const std::exception&) {  // the measuring side reports it
  }
}

struct LoopbackSpeed {
  Seconds stream, round;
};

LoopbackSpeed measure() {
  const auto listener = comm::listen_on("127.0.0.1", 0);
  const Socket listening(listener.descriptor);
  const Socket own(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{
      .sin_family = AF_INET, .sin_port = htons(listener.port), .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  if (::connect(own.descriptor(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw comm::CommError(text("cannot connect to 127.0.0.1: ", std::strerror(errno)));
  std::jthread other([&] { serve_once(listener.descriptor); });
  std::vector<char> piece(kPiece);
  const auto begin = Clock::now();
  for (int i = 0; i < kPieces; ++i) own.send(piece.data(), kPiece);
  own.receive(piece.data(), 1);
  const auto streamed = Clock::now();
  for (int i = 0; i < kRounds; ++i) {
    own.send(piece.data(), 1);
    own.receive(piece.data(), 1);
  }
  return {streamed - begin, Seconds(Clock::now() - streamed) / kRounds};
}

}  // namespace

Check loopback_check() {
  Check out{.name = "loopback"};
  try {
    const auto [stream, round] = measure();
    const Bytes bytes{static_cast<int64_t>(kPiece) * kPieces};
    const double rate = static_cast<double>(bytes.count) / stream.count();
    out.figures = {{"bytes_per_second", rate}, {"round_trip_seconds", round.count()}};
    out.found = text(to_string_bandwidth(bytes, stream), ", round trip ", to_string(round));
    if (rate >= kSlow) return out;
    out.verdict = Verdict::advice;
    out.mend = "close other programs, and give ranks of a container the host's network (docker run --network host)";
  } catch (const std::exception& fault) {
    out.found = fault.what();
    out.verdict = Verdict::failed;
    out.mend = "ip link set lo up";
  }
  return out;
}

}  // namespace shade::cli
