#include "shade/data/keyed_bits.h"

#include <sodium.h>

#include <bit>

#include "shade/base/error.h"

namespace shade::data {

KeyedBits::KeyedBits(const SampleKey& key, Purpose purpose, uint64_t index) {
  static const int status = sodium_init();
  SHADE_CHECK(status >= 0, "libsodium can't be initialised: the system has no source of randomness");
  uint8_t message[16];
  for (int i = 0; i < 8; ++i) {
    message[i] = static_cast<uint8_t>(static_cast<uint64_t>(purpose) >> (8 * i));
    message[8 + i] = static_cast<uint8_t>(index >> (8 * i));
  }
  crypto_generichash(subkey_.data(), subkey_.size(), message, sizeof message, key.data(), key.size());
}

KeyedBits::~KeyedBits() {
  sodium_memzero(subkey_.data(), subkey_.size());
  sodium_memzero(words_.data(), sizeof words_);
}

void KeyedBits::refill() {
  static constexpr uint8_t kNonce[crypto_stream_chacha20_NONCEBYTES] = {};
  words_.fill(0);
  auto* bytes = reinterpret_cast<uint8_t*>(words_.data());  // little-endian, as all machines this is built for
  crypto_stream_chacha20_xor_ic(bytes, bytes, sizeof words_, kNonce, block_, subkey_.data());
  block_ += sizeof words_ / 64;
  used_ = 0;
}

uint64_t KeyedBits::next() {
  if (used_ == kWords) refill();
  return words_[used_++];
}

uint64_t KeyedBits::below(uint64_t bound) {
  SHADE_CHECK(bound > 0, "there is no number below 0");
  const uint64_t mask = std::bit_ceil(bound) - 1;  // bound = 2^63 + 1 and more: all ones
  for (;;)
    if (const auto drawn = next() & mask; drawn < bound) return drawn;
}

}  // namespace shade::data
