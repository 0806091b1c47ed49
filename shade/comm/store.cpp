#include "shade/comm/store.h"

#include <poll.h>
#include <sys/socket.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <memory>

#include "shade/base/descriptor.h"
#include "shade/comm/errors.h"
#include "shade/comm/job/task.h"
#include "shade/comm/socket.h"

namespace shade::comm {
namespace {

constexpr Seconds kAnswer{1};  // beyond the limit of the connection

std::chrono::milliseconds whole_ms(Seconds time) { return std::chrono::duration_cast<std::chrono::milliseconds>(time); }

bool accepts_connections(const std::string& host, uint16_t port) {
  const Descriptor probe(begin_connecting(host, port));
  pollfd connected{*probe, POLLOUT, 0};
  int fault = 0;
  socklen_t size = sizeof fault;
  return ::poll(&connected, 1, /*timeout_ms=*/500) == 1 &&
         ::getsockopt(*probe, SOL_SOCKET, SO_ERROR, &fault, &size) == 0 && fault == 0;
}

}  // namespace

HostedStore host_store(const std::string& host, uint16_t port, Seconds timeout) {
  const auto listener = listen_on(host, port);
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.waitWorkers = false;
  options.masterListenFd = listener.descriptor;
  options.port = listener.port;
  options.timeout = whole_ms(timeout);
  return {c10::make_intrusive<c10d::TCPStore>(host, options), listener.port};
}

c10::intrusive_ptr<c10d::Store> join_store(const std::string& host, uint16_t port, Seconds timeout) {
  c10d::TCPStoreOptions options;
  options.isServer = false;
  options.waitWorkers = false;
  options.port = port;
  options.timeout = whole_ms(timeout);
  // TCPStore limits the time to connect, but not that of the answer. The thread that waits for one may stay behind, so
  // it owns all that it uses.
  struct Joined {
    c10::intrusive_ptr<c10d::Store> store;
  };
  const auto joined = std::make_shared<Joined>();
  Task task([joined, host, options] {
    try {
      joined->store = c10::make_intrusive<c10d::TCPStore>(host, options);
    } catch (const std::exception&) {  // no store says it
    }
  });
  const bool ended = task.join_within(timeout + kAnswer);
  if (ended && joined->store) return joined->store;
  if (!ended && accepts_connections(host, port))
    throw CommError(text("the process at ", host, ":", port,
                         " accepts connections and does not answer as a store within ", to_string(timeout),
                         "; another program uses this port: choose one with MASTER_PORT"));
  throw CommError(text("no store answers at ", host, ":", port, " within ", to_string(timeout),
                       "; is rank 0 (or the launcher) running, and is MASTER_ADDR right?"));
}

// A comparison that fails changes nothing and gives the present value, or what it was compared with if there is none.
std::optional<std::string> peek(c10d::Store& store, const std::string& key) {
  static const std::string kNone = "shade: no value";
  auto value = store.compareSet(key, kNone, kNone);
  if (value == kNone) return std::nullopt;
  return value;
}

std::optional<std::vector<std::string>> peek_all(c10d::Store& store, const std::vector<std::string>& keys) {
  if (!store.check(keys)) return std::nullopt;  // or multiGet would wait
  std::vector<std::string> out;
  for (const auto& value : store.multiGet(keys)) out.emplace_back(value.begin(), value.end());
  return out;
}

bool wait_for(c10d::Store& store, const std::string& key, Seconds limit) {
  constexpr Seconds kSlice{5};
  try {
    store.wait({key}, whole_ms(std::clamp(limit, Seconds(0.001), kSlice)));
    return true;
  } catch (const c10::DistStoreError&) {  // not within this time
    return store.check({key});            // throws if the store is gone
  }
}

}  // namespace shade::comm
