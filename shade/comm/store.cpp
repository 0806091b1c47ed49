#include "shade/comm/store.h"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>

#include "shade/comm/errors.h"
#include "shade/comm/socket.h"

namespace shade::comm {
namespace {

std::chrono::milliseconds whole_ms(Seconds time) { return std::chrono::duration_cast<std::chrono::milliseconds>(time); }

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
  try {
    return c10::make_intrusive<c10d::TCPStore>(host, options);
  } catch (const std::exception&) {
    throw CommError(text("no store answers at ", host, ":", port, " within ", to_string(timeout),
                         "; is rank 0 (or the launcher) running, and is MASTER_ADDR right?"));
  }
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
