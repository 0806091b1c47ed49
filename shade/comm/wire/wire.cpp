// Messages between the ranks of a group over connections of our own. Gloo's messages would do, but Gloo accepts any
// process that connects to its port as a rank and interprets what it sends; the build in libtorch's wheel has no TLS.
//
// There is no thread here: sockets move while the lane that uses the group waits for a message.
#include <ATen/ATen.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "shade/comm/backends/backends.h"
#include "shade/comm/errors.h"
#include "shade/comm/wire/channel.h"
#include "shade/comm/wire/connect.h"

namespace shade::comm {
namespace {

using wire::Channel;
using wire::Message;

class Wire final : public c10d::Backend {
 public:
  Wire(c10d::Store& store, int rank, int size, const BackendOptions& options)
      : c10d::Backend(rank, size), channels_(static_cast<size_t>(size)) {
    auto connections = wire::connect_group(store, {.group = options.name,
                                                   .address = options.address,
                                                   .rank = rank,
                                                   .global_ranks = options.global_ranks,
                                                   .secret = options.secret.value(),
                                                   .seal = options.seal,
                                                   .limit = options.timeout,
                                                   .interrupt = options.interrupt});
    if (!events_ || !wake_) throw CommError(text("cannot watch sockets: ", std::strerror(errno)));
    watch(*wake_, EPOLLIN, size);
    for (int peer = 0; peer < size; ++peer) {
      auto& connection = connections[static_cast<size_t>(peer)];
      if (!connection) continue;
      auto& channel = channels_[static_cast<size_t>(peer)];
      channel =
          std::make_unique<Channel>(std::move(connection->socket), options.global_ranks[static_cast<size_t>(peer)],
                                    connection->agreement, options.seal);
      watch(channel->descriptor(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, peer);
    }
  }

  const std::string getBackendName() const override { return "wire"; }

  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int to, int) override {
    auto message = std::make_shared<Message>(tensors.at(0));
    auto& channel = at(to);
    channel.send(message);
    return c10::make_intrusive<Sent>(*this, channel, std::move(message));
  }

  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int from, int) override {
    auto message = std::make_shared<Message>(tensors.at(0));
    auto& channel = at(from);
    channel.receive(message);
    return c10::make_intrusive<Sent>(*this, channel, std::move(message));
  }

 private:
  // A message on its way, out or in.
  class Sent final : public c10d::Work {
   public:
    Sent(Wire& wire, Channel& channel, std::shared_ptr<Message> message)
        : wire_(wire), channel_(channel), message_(std::move(message)) {}
    bool isCompleted() override { return message_->complete; }
    bool wait(std::chrono::milliseconds) override { return wire_.wait_for(channel_, *message_); }
    void abort() override { wire_.interrupt(); }

   private:
    Wire& wire_;
    Channel& channel_;
    std::shared_ptr<Message> message_;
  };

  Channel& at(int peer) { return *channels_.at(static_cast<size_t>(peer)); }

  void watch(int descriptor, uint32_t what, int number) {
    epoll_event event{.events = what, .data = {.u32 = static_cast<uint32_t>(number)}};
    if (::epoll_ctl(*events_, EPOLL_CTL_ADD, descriptor, &event) != 0)
      throw CommError(text("cannot watch a socket: ", std::strerror(errno)));
  }

  // False if it was interrupted.
  bool wait_for(Channel& channel, const Message& message) {
    while (!message.complete) {
      if (interrupted_) return false;
      if (channel.fault()) std::rethrow_exception(channel.fault());
      move();
    }
    return true;
  }

  // Blocks until something has moved, on whatever channel, or somebody interrupts.
  void move() {
    std::array<epoll_event, 64> events;
    const int count = ::epoll_wait(*events_, events.data(), static_cast<int>(events.size()), -1);
    if (count < 0 && errno != EINTR) throw CommError(text("cannot wait for sockets: ", std::strerror(errno)));
    for (int i = 0; i < count; ++i) {
      const auto [what, data] = events[static_cast<size_t>(i)];
      if (data.u32 == static_cast<uint32_t>(size_)) continue;  // interrupted
      auto& channel = *channels_[data.u32];
      channel.ready((what & EPOLLIN) != 0, (what & EPOLLOUT) != 0, (what & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
      if (channel.changed()) std::rethrow_exception(channel.fault());  // whatever message is waited for
    }
  }

  // From any thread, for good.
  void interrupt() {
    interrupted_ = true;
    ::eventfd_write(*wake_, 1);
  }

  Descriptor events_{::epoll_create1(EPOLL_CLOEXEC)};
  Descriptor wake_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::vector<std::unique_ptr<Channel>> channels_;  // by rank within the group; none for the own
  std::atomic<bool> interrupted_{false};
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_wire(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                            const BackendOptions& options) {
  return c10::make_intrusive<Wire>(*store, rank, size, options);
}

}  // namespace shade::comm
