#include "shade/comm/wire/record_seal.h"

#include <cstring>

namespace shade::comm::wire {

RecordSeal::RecordSeal(const KeyBytes& key, bool aes) : aes_(aes), key_(key) {
  if (aes_) crypto_aead_aes256gcm_beforenm(&expanded_, key_.data());
}

RecordSeal::~RecordSeal() { sodium_memzero(&expanded_, sizeof expanded_); }

std::array<uint8_t, 12> RecordSeal::next_nonce() {
  std::array<uint8_t, 12> nonce{};
  std::memcpy(nonce.data(), &count_, sizeof count_);
  ++count_;
  return nonce;
}

void RecordSeal::seal(uint8_t* out, std::span<const uint8_t> plain, std::span<const uint8_t> header) {
  const auto nonce = next_nonce();
  auto* const tag = out + plain.size();
  if (aes_) {
    crypto_aead_aes256gcm_encrypt_detached_afternm(out, tag, nullptr, plain.data(), plain.size(), header.data(),
                                                   header.size(), nullptr, nonce.data(), &expanded_);
  } else {
    crypto_aead_chacha20poly1305_ietf_encrypt_detached(out, tag, nullptr, plain.data(), plain.size(), header.data(),
                                                       header.size(), nullptr, nonce.data(), key_.data());
  }
}

bool RecordSeal::open(uint8_t* out, std::span<const uint8_t> sealed, std::span<const uint8_t> header) {
  const auto nonce = next_nonce();
  const auto size = sealed.size() - kTag;
  const auto* const tag = sealed.data() + size;
  const int status =
      aes_ ? crypto_aead_aes256gcm_decrypt_detached_afternm(out, nullptr, sealed.data(), size, tag, header.data(),
                                                            header.size(), nonce.data(), &expanded_)
           : crypto_aead_chacha20poly1305_ietf_decrypt_detached(out, nullptr, sealed.data(), size, tag, header.data(),
                                                                header.size(), nonce.data(), key_.data());
  return status == 0;
}

}  // namespace shade::comm::wire
