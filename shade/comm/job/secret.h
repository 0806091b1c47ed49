// The job secret: 32 bytes that the ranks of one job share. Where it comes from: comm/job/job_secret.h.
//
// It seals what ranks say through the store (comm/job/sealed_store.h) and what must stay secret in collectives
// (comm/job/sealed_words.h), by XChaCha20-Poly1305 of libsodium under random nonces.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shade/base/key_bytes.h"

namespace shade::comm {

// A small value; copies share the bytes, which are wiped with the last of them. A process that has one leaves no core
// dump (base/key_bytes.h).
class Secret {
 public:
  using Bytes = KeyBytes::Bytes;

  static constexpr size_t kFewestCharacters = 32;
  static std::string new_words();            // 64 hexadecimal digits from the system's generator
  static Secret of(std::string_view words);  // BLAKE2b; shorter words than kFewestCharacters are refused

  Secret derived(std::string_view purpose) const;

  // Authentication code of a message: BLAKE2b keyed with the secret. Codes of different purposes are unrelated, and so
  // are codes and derived secrets.
  Bytes code(std::string_view purpose, std::span<const uint8_t> message) const;

  // What is sealed under one name opens under no other.
  static constexpr size_t kOverhead = 40;  // nonce and tag
  std::vector<uint8_t> seal(std::string_view name, std::span<const uint8_t> value) const;
  std::optional<std::vector<uint8_t>> open(std::string_view name, std::span<const uint8_t> sealed) const;

 private:
  explicit Secret(const Bytes& bytes);
  std::shared_ptr<const KeyBytes> bytes_;
};

}  // namespace shade::comm
