#include "shade/comm/wire/handshake.h"

#include <sodium.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace shade::comm::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are sent as they are in memory");
static_assert(kGreeting == crypto_scalarmult_BYTES + 1 && KeyBytes::size() == crypto_scalarmult_SCALARBYTES);

constexpr uint8_t kSeals = 1, kHasAes = 2;
constexpr const char *kToServer = "client to server", *kToClient = "server to client";

Offer offer_in(std::span<const uint8_t> greeting) {
  const auto bits = greeting[kGreeting - 1];
  return {.seal = (bits & kSeals) != 0, .aes = (bits & kHasAes) != 0};
}

bool same(const Code& expected, std::span<const uint8_t> given) {
  return given.size() == expected.size() && sodium_memcmp(expected.data(), given.data(), expected.size()) == 0;
}

uint32_t number_at(const uint8_t* from) {
  uint32_t number = 0;
  std::memcpy(&number, from, sizeof number);
  return number;
}

std::string_view text_of(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// What both ends have in common after their greetings, and no other connection has. None if the peer's key is one that
// forces the result.
std::optional<Secret> session_of(const Secret& group, const KeyBytes& own, std::span<const uint8_t> peer,
                                 std::span<const uint8_t> hello, std::span<const uint8_t> answer) {
  KeyBytes shared;
  if (crypto_scalarmult(shared.data(), own.data(), peer.data()) != 0) return std::nullopt;
  return group.derived("wire session")
      .derived(text_of(hello))
      .derived(text_of(answer))
      .derived(text_of(shared.bytes()));
}

KeyBytes key_of(const Secret& session, const char* purpose) {
  auto code = session.code(purpose, {});
  const KeyBytes key(code);
  sodium_memzero(code.data(), code.size());
  return key;
}

}  // namespace

Offer offer_of_this_host(bool seal) {
  return {.seal = seal, .aes = sodium_init() >= 0 && crypto_aead_aes256gcm_is_available() != 0};
}

Greeting::Greeting(Offer offer) {
  randombytes_buf(secret.data(), KeyBytes::size());
  crypto_scalarmult_base(bytes.data(), secret.data());
  bytes[kGreeting - 1] = static_cast<uint8_t>((offer.seal ? kSeals : 0) | (offer.aes ? kHasAes : 0));
}

ClientHandshake::ClientHandshake(Secret group, int self, int server, Offer offer)
    : group_(std::move(group)), offer_(offer), greeting_(offer) {
  const std::array ranks{static_cast<uint32_t>(self), static_cast<uint32_t>(server)};
  std::memcpy(hello_.data(), ranks.data(), kRanks);
  std::copy(greeting_.bytes.begin(), greeting_.bytes.end(), hello_.begin() + kRanks);
  const auto code = group_.code("hello", std::span(hello_).first<kRanks + kGreeting>());
  std::copy(code.begin(), code.end(), hello_.begin() + kRanks + kGreeting);
}

std::optional<Code> ClientHandshake::confirm(std::span<const uint8_t, kAnswer> answer) {
  const auto peer = answer.first<kGreeting>();
  session_ = session_of(group_, greeting_.secret, peer, hello_, peer);
  if (!session_ || !same(session_->code("answer", {}), answer.subspan<kGreeting>())) return std::nullopt;
  const auto theirs = offer_in(peer);
  agreement_ = {.send = key_of(*session_, kToServer),
                .receive = key_of(*session_, kToClient),
                .peer = theirs,
                .aes = offer_.aes && theirs.aes};
  return session_->code("confirmation", {});
}

bool ClientHandshake::welcomed(std::span<const uint8_t, kWelcome> welcome) const {
  return session_ && same(session_->code("welcome", {}), welcome);
}

ServerHandshake::ServerHandshake(Secret group, int self, int size, Offer offer)
    : group_(std::move(group)), self_(self), size_(size), offer_(offer) {}

std::optional<std::array<uint8_t, kAnswer>> ServerHandshake::answer(std::span<const uint8_t, kHello> hello) {
  const auto said = hello.first<kRanks + kGreeting>();
  if (!same(group_.code("hello", said), hello.subspan<kRanks + kGreeting>())) return std::nullopt;
  const auto from = number_at(hello.data()), to = number_at(hello.data() + sizeof(uint32_t));
  const auto self = static_cast<uint32_t>(self_);
  if (to != self || from <= self || from >= static_cast<uint32_t>(size_)) return std::nullopt;
  const auto peer = said.subspan<kRanks>();
  const Greeting own(offer_);
  session_ = session_of(group_, own.secret, peer, hello, own.bytes);
  if (!session_) return std::nullopt;
  client_ = static_cast<int>(from);
  const auto theirs = offer_in(peer);
  agreement_ = {.send = key_of(*session_, kToClient),
                .receive = key_of(*session_, kToServer),
                .peer = theirs,
                .aes = offer_.aes && theirs.aes};
  std::array<uint8_t, kAnswer> out{};
  std::copy(own.bytes.begin(), own.bytes.end(), out.begin());
  const auto code = session_->code("answer", {});
  std::copy(code.begin(), code.end(), out.begin() + kGreeting);
  return out;
}

std::optional<Code> ServerHandshake::welcome(std::span<const uint8_t, kConfirmation> confirmation) const {
  if (!session_ || !same(session_->code("confirmation", {}), confirmation)) return std::nullopt;
  return session_->code("welcome", {});
}

}  // namespace shade::comm::wire
