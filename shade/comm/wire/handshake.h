// Mutual authentication of a new connection between two ranks of a group. Until it is over, neither end sends anything
// of the run or interprets any other byte that it receives.
//
//   hello         client -> server   u32 client's rank, u32 server's rank, greeting, code        73 bytes
//   answer        server -> client   greeting, code                                              65 bytes
//   confirmation  client -> server   code                                                        32 bytes
//   welcome       server -> client   code                                                        32 bytes
//
// The code of the hello is keyed with the group's secret, which is derived from the job secret, the start of the world,
// the group's name and its members. A greeting is an ephemeral X25519 key and a byte of offers. All further codes and
// the keys of the connection follow from the group's secret, ranks, greetings and the X25519 agreement: a recorded,
// reflected or relayed message is refused, no key is used twice, and recorded traffic stays closed if the job secret
// becomes known later. Numbers are little-endian.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "shade/base/key_bytes.h"
#include "shade/comm/job/secret.h"

namespace shade::comm::wire {

using Code = Secret::Bytes;

struct Offer {
  bool seal = false;  // this end seals its messages
  bool aes = false;   // the processor has instructions for AES-256-GCM; else ChaCha20-Poly1305 is used
};
Offer offer_of_this_host(bool seal);

struct Agreement {
  KeyBytes send, receive;  // keys of the two directions
  Offer peer;
  bool aes = false;  // both ends have it
};

inline constexpr size_t kRanks = 2 * sizeof(uint32_t);
inline constexpr size_t kGreeting = 33;
inline constexpr size_t kHello = kRanks + kGreeting + sizeof(Code);
inline constexpr size_t kAnswer = kGreeting + sizeof(Code);
inline constexpr size_t kConfirmation = sizeof(Code);
inline constexpr size_t kWelcome = sizeof(Code);

// What an end of the connection contributes: a new X25519 key.
struct Greeting {
  explicit Greeting(Offer offer);
  KeyBytes secret;
  std::array<uint8_t, kGreeting> bytes;
};

class ClientHandshake {
 public:
  ClientHandshake(Secret group, int self, int server, Offer offer);
  const std::array<uint8_t, kHello>& hello() const { return hello_; }
  // The confirmation to send, or nothing if the answer doesn't prove that the server is this rank of the group.
  std::optional<Code> confirm(std::span<const uint8_t, kAnswer> answer);
  // The server has taken the confirmation. Without this a connection that was dropped would pass for an open one.
  bool welcomed(std::span<const uint8_t, kWelcome> welcome) const;
  const Agreement& agreement() const { return agreement_.value(); }

 private:
  Secret group_;
  Offer offer_;
  Greeting greeting_;
  std::array<uint8_t, kHello> hello_{};
  std::optional<Secret> session_;
  std::optional<Agreement> agreement_;
};

class ServerHandshake {
 public:
  ServerHandshake(Secret group, int self, int size, Offer offer);
  // The answer to send, or nothing if the hello isn't one of a higher rank of the group to this one.
  std::optional<std::array<uint8_t, kAnswer>> answer(std::span<const uint8_t, kHello> hello);
  // The welcome to send, or nothing if the confirmation doesn't prove the client.
  std::optional<Code> welcome(std::span<const uint8_t, kConfirmation> confirmation) const;
  int client() const { return client_; }
  const Agreement& agreement() const { return agreement_.value(); }

 private:
  Secret group_;
  int self_, size_;
  Offer offer_;
  int client_ = -1;
  std::optional<Secret> session_;
  std::optional<Agreement> agreement_;
};

}  // namespace shade::comm::wire
