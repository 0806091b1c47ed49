// Mutual authentication of a new connection between two ranks of a group. Until it is over, neither end sends anything
// of the run or interprets any other byte that it receives.
//
//   client -> server   u32 client's rank, u32 server's rank, greeting, code of all that         72 bytes
//   server -> client   greeting, code of both greetings and ranks                                64 bytes
//   client -> server   another code of both greetings and ranks                                  32 bytes
//
// Codes are keyed with the group's secret, which is derived from the job secret, the start of the world, the group's
// name and its members. A code is of use for one message of one pair in one direction: a recorded, reflected or relayed
// message is refused. A greeting is 31 random bytes and a byte of offers, so both ends contribute to the keys of the
// connection, and no key is ever used twice. Numbers are little-endian.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "shade/comm/job/secret.h"

namespace shade::comm::wire {

using Code = Secret::Bytes;

struct Offer {
  bool seal = false;  // this end seals its messages
  bool aes = false;   // the processor has instructions for AES-256-GCM; else ChaCha20-Poly1305 is used
};
Offer offer_of_this_host(bool seal);

struct Agreement {
  Code send{}, receive{};  // keys of the two directions
  Offer peer;
  bool aes = false;  // both ends have it
};

inline constexpr size_t kGreeting = 32;
inline constexpr size_t kHello = 2 * sizeof(uint32_t) + kGreeting + sizeof(Code);
inline constexpr size_t kAnswer = kGreeting + sizeof(Code);
inline constexpr size_t kConfirmation = sizeof(Code);
inline constexpr size_t kTranscript = 2 * sizeof(uint32_t) + 2 * kGreeting;

class ClientHandshake {
 public:
  ClientHandshake(Secret group, int self, int server, Offer offer);
  const std::array<uint8_t, kHello>& hello() const { return hello_; }
  // The confirmation to send, or nothing if the answer doesn't prove that the server is this rank of the group.
  std::optional<std::array<uint8_t, kConfirmation>> confirm(std::span<const uint8_t, kAnswer> answer);
  Agreement agreement() const;  // after confirm

 private:
  Secret group_;
  Offer offer_;
  std::array<uint8_t, kHello> hello_{};
  std::array<uint8_t, kTranscript> transcript_{};
};

class ServerHandshake {
 public:
  ServerHandshake(Secret group, int self, int size, Offer offer);
  // The answer to send, or nothing if the hello isn't one of a higher rank of the group to this one.
  std::optional<std::array<uint8_t, kAnswer>> answer(std::span<const uint8_t, kHello> hello);
  bool confirmed(std::span<const uint8_t, kConfirmation> confirmation) const;
  int client() const { return client_; }
  Agreement agreement() const;  // after a confirmation

 private:
  Secret group_;
  int self_, size_;
  Offer offer_;
  int client_ = -1;
  std::array<uint8_t, kTranscript> transcript_{};
};

}  // namespace shade::comm::wire
