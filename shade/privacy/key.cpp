#include "shade/privacy/key.h"

#include <sodium.h>

#include <algorithm>

#include "shade/base/error.h"

namespace shade::privacy {
namespace {

void require_sodium() {
  static const int status = sodium_init();
  SHADE_CHECK(status >= 0, "libsodium can't be initialised: the system has no source of randomness");
}

}  // namespace

NoiseKey secret_key() {
  require_sodium();
  forbid_memory_dumps();
  NoiseKey key;
  randombytes_buf(key.data(), key.size());
  return key;
}

NoiseKey seeded_key(uint64_t seed) {
  require_sodium();
  std::array<uint8_t, 8> message;
  for (size_t i = 0; i < message.size(); ++i) message[i] = static_cast<uint8_t>(seed >> (8 * i));
  NoiseKey key;
  crypto_generichash(key.data(), key.size(), message.data(), message.size(), nullptr, 0);
  return key;
}

NoiseKey derived_key(const NoiseKey& key, std::string_view purpose, std::span<const std::byte> message) {
  require_sodium();
  std::array<uint8_t, crypto_generichash_blake2b_PERSONALBYTES> personal;
  SHADE_CHECK(purpose.size() <= personal.size(), "the purpose of a key has at most ", personal.size(), " bytes");
  personal.fill(' ');
  std::copy(purpose.begin(), purpose.end(), personal.begin());
  NoiseKey out;
  crypto_generichash_blake2b_salt_personal(out.data(), out.size(), reinterpret_cast<const uint8_t*>(message.data()),
                                           message.size(), key.data(), key.size(), nullptr, personal.data());
  return out;
}

}  // namespace shade::privacy
