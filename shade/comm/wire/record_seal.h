// Authenticated encryption of one direction of a connection: AES-256-GCM or ChaCha20-Poly1305 of libsodium. Records are
// numbered, and the number is the nonce: a record opens once, in its place. The key is used for nothing else
// (wire/handshake.h).
#pragma once

#include <sodium.h>

#include <cstdint>
#include <span>

#include "shade/comm/wire/handshake.h"

namespace shade::comm::wire {

inline constexpr size_t kRecord =
    65536;  // the most that is sealed at once: ciphertext and plaintext fit in the L2 cache
inline constexpr size_t kTag = 16;
static_assert(kTag == crypto_aead_aes256gcm_ABYTES && kTag == crypto_aead_chacha20poly1305_ietf_ABYTES);

class RecordSeal {
 public:
  RecordSeal(const KeyBytes& key, bool aes);
  ~RecordSeal();
  RecordSeal(const RecordSeal&) = delete;
  RecordSeal& operator=(const RecordSeal&) = delete;

  // Writes ciphertext and tag, kTag bytes more than `plain`. `header` is authenticated too.
  void seal(uint8_t* out, std::span<const uint8_t> plain, std::span<const uint8_t> header);
  // Writes the plaintext. False if the bytes are not the next record that the other end has sealed with this header.
  [[nodiscard]] bool open(uint8_t* out, std::span<const uint8_t> sealed, std::span<const uint8_t> header);

 private:
  std::array<uint8_t, 12> next_nonce();

  bool aes_;
  uint64_t count_ = 0;
  KeyBytes key_;
  crypto_aead_aes256gcm_state expanded_;
};

}  // namespace shade::comm::wire
