// The world's store: where ranks find each other. One implementation serves all launchers: c10d's TCPStore, bound to
// one address (loopback on a single host), never to all interfaces.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shade/base/units.h"

namespace c10d {
class Store;
}

namespace shade::comm {

inline constexpr int64_t kStoreSockets = 2;  // of a rank, at the store's server: the world's and the watchdog's

struct HostedStore {
  c10::intrusive_ptr<c10d::Store> store;
  uint16_t port = 0;
};

HostedStore host_store(const std::string& host, uint16_t port, Seconds timeout);
c10::intrusive_ptr<c10d::Store> join_store(const std::string& host, uint16_t port, Seconds timeout);

// The value of `key` if there is one: one request, which never waits. (A get waits for the key first, and goes on
// waiting for one that was deleted.)
std::optional<std::string> peek(c10d::Store& store, const std::string& key);

inline constexpr int kTogether = 256;  // ranks whose values rank 0 asks for at once while not all have come

// The values of all keys if none is missing: three requests, however many they are.
std::optional<std::vector<std::string>> peek_all(c10d::Store& store, const std::vector<std::string>& keys);

// Waits until `key` has a value, for a few seconds at most; the store, which holds its answer back, is asked nothing
// meanwhile. Polls of many ranks would come before rank 0's requests, which are one after another.
bool wait_for(c10d::Store& store, const std::string& key, Seconds limit);

}  // namespace shade::comm
