// What bytes are known by: BLAKE2b of 256 bits (libsodium).
//
// A CRC would be ten times as fast, but one damaged piece in four thousand million would pass it, and anybody can make
// bytes for one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "shade/io/input_file.h"

namespace shade::hash {

using Digest = std::array<uint8_t, 32>;      // 256 bits
inline constexpr size_t kDigestDigits = 64;  // hexadecimal digits of a digest

// Of bytes that come one part after the other.
class Hasher {
 public:
  Hasher();
  Hasher& add(std::span<const std::byte> bytes);  // appends a part; returns *this
  // Appends the characters, without a terminator.
  Hasher& add(std::string_view words) { return add(std::as_bytes(std::span(words))); }
  Digest digest();  // once, at the end

 private:
  alignas(64) std::array<unsigned char, 384> state_{};
};

Digest digest_of(std::span<const std::byte> bytes);  // digest of one block of bytes
Digest digest_of(std::string_view words);            // digest of the characters, without a terminator

std::string to_hex(const Digest& digest);                        // lower case
std::optional<Digest> digest_from_hex(std::string_view digits);  // exactly what to_hex writes

// SHA-256 of files, for digests that others check: sha256sum is on every system, and model hubs show the SHA-256 of
// large files. Digests that only this program reads are BLAKE2b (digest.h), which is several times as fast.

// 64 hexadecimal digits in lower case, as sha256sum prints them. Pages are dropped as they are read.
std::string sha256_of(const io::MappedFile& file);
std::string sha256_of(std::string_view bytes);  // of bytes in memory, in the same form

}  // namespace shade::hash
