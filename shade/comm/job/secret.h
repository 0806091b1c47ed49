// The job secret: 32 bytes that the ranks of one job share. Where it comes from: comm/job/secret.h.
//
// It seals what ranks say through the store (comm/job/sealed_store.h) and what must stay secret in collectives
// (comm/job/sealed_store.h), by XChaCha20-Poly1305 of libsodium under random nonces.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shade/base/key_bytes.h"
#include "shade/comm/job/environment.h"

namespace shade::comm {

// A small value; copies share the bytes, which are wiped with the last of them. A process that has one leaves no core
// dump (base/key_bytes.h).
class Secret {
 public:
  using Bytes = KeyBytes::Bytes;

  static constexpr size_t kFewestCharacters = 32;
  static std::string new_digits();           // 64 hexadecimal digits from the system's generator
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

// Where a rank's job secret comes from. The first of
//
//   SHADE_SECRET_FILE   a file that only its owner may read
//   SHADE_SECRET        the secret itself; `shade launch` and --ranks make one for every start and set it
//   on one host         this user's own file in the folder for temporary files, made when it is first needed
//
// Ranks on several hosts have no such file in common: without one of the variables they are refused.
inline constexpr const char* kSecretVariable = "SHADE_SECRET";
inline constexpr const char* kSecretFileVariable = "SHADE_SECRET_FILE";

Secret job_secret(const Place& place);
Secret job_secret(const Place& place, const Getenv& get, const std::filesystem::path& temporary);

}  // namespace shade::comm
