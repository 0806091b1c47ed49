#include "shade/comm/wire/handshake.h"

#include <sodium.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace shade::comm::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are sent as they are in memory");

constexpr size_t kRanks = 2 * sizeof(uint32_t);
constexpr uint8_t kSeals = 1, kHasAes = 2;
constexpr const char *kToServer = "client to server", *kToClient = "server to client";

void write_greeting(uint8_t* out, Offer offer) {
  randombytes_buf(out, kGreeting - 1);
  out[kGreeting - 1] = static_cast<uint8_t>((offer.seal ? kSeals : 0) | (offer.aes ? kHasAes : 0));
}

Offer offer_in(const uint8_t* greeting) {
  const auto bits = greeting[kGreeting - 1];
  return {.seal = (bits & kSeals) != 0, .aes = (bits & kHasAes) != 0};
}

bool same(const Code& expected, const uint8_t* given) {
  return sodium_memcmp(expected.data(), given, expected.size()) == 0;
}

uint32_t number_at(const uint8_t* from) {
  uint32_t number = 0;
  std::memcpy(&number, from, sizeof number);
  return number;
}

}  // namespace

Offer offer_of_this_host(bool seal) {
  return {.seal = seal, .aes = sodium_init() >= 0 && crypto_aead_aes256gcm_is_available() != 0};
}

ClientHandshake::ClientHandshake(Secret group, int self, int server, Offer offer)
    : group_(std::move(group)), offer_(offer) {
  const std::array ranks{static_cast<uint32_t>(self), static_cast<uint32_t>(server)};
  std::memcpy(hello_.data(), ranks.data(), kRanks);
  write_greeting(hello_.data() + kRanks, offer);
  const auto said = std::span(hello_).first<kRanks + kGreeting>();
  const auto code = group_.code("hello", said);
  std::copy(code.begin(), code.end(), hello_.begin() + kRanks + kGreeting);
  std::copy(said.begin(), said.end(), transcript_.begin());
}

std::optional<std::array<uint8_t, kConfirmation>> ClientHandshake::confirm(std::span<const uint8_t, kAnswer> answer) {
  std::copy_n(answer.begin(), kGreeting, transcript_.begin() + kRanks + kGreeting);
  if (!same(group_.code("answer", transcript_), answer.data() + kGreeting)) return std::nullopt;
  return group_.code("confirmation", transcript_);
}

Agreement ClientHandshake::agreement() const {
  const auto peer = offer_in(transcript_.data() + kRanks + kGreeting);
  return {.send = group_.code(kToServer, transcript_),
          .receive = group_.code(kToClient, transcript_),
          .peer = peer,
          .aes = offer_.aes && peer.aes};
}

ServerHandshake::ServerHandshake(Secret group, int self, int size, Offer offer)
    : group_(std::move(group)), self_(self), size_(size), offer_(offer) {}

std::optional<std::array<uint8_t, kAnswer>> ServerHandshake::answer(std::span<const uint8_t, kHello> hello) {
  const auto said = hello.first<kRanks + kGreeting>();
  if (!same(group_.code("hello", said), hello.data() + kRanks + kGreeting)) return std::nullopt;
  const auto from = number_at(hello.data()), to = number_at(hello.data() + sizeof(uint32_t));
  const auto self = static_cast<uint32_t>(self_);
  if (to != self || from <= self || from >= static_cast<uint32_t>(size_)) return std::nullopt;
  client_ = static_cast<int>(from);
  std::copy(said.begin(), said.end(), transcript_.begin());
  auto* const own = transcript_.data() + kRanks + kGreeting;
  write_greeting(own, offer_);
  std::array<uint8_t, kAnswer> out{};
  std::copy_n(own, kGreeting, out.begin());
  const auto code = group_.code("answer", transcript_);
  std::copy(code.begin(), code.end(), out.begin() + kGreeting);
  return out;
}

bool ServerHandshake::confirmed(std::span<const uint8_t, kConfirmation> confirmation) const {
  return client_ >= 0 && same(group_.code("confirmation", transcript_), confirmation.data());
}

Agreement ServerHandshake::agreement() const {
  const auto peer = offer_in(transcript_.data() + kRanks);
  return {.send = group_.code(kToClient, transcript_),
          .receive = group_.code(kToServer, transcript_),
          .peer = peer,
          .aes = offer_.aes && peer.aes};
}

}  // namespace shade::comm::wire
