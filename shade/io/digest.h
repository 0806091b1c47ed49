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

namespace shade::io {

using Digest = std::array<uint8_t, 32>;
inline constexpr size_t kDigestDigits = 64;

// Of bytes that come one part after the other.
class Hasher {
 public:
  Hasher();
  Hasher& add(std::span<const std::byte> bytes);
  Hasher& add(std::string_view words) { return add(std::as_bytes(std::span(words))); }
  Digest digest();  // once, at the end

 private:
  alignas(64) std::array<unsigned char, 384> state_{};
};

Digest digest_of(std::span<const std::byte> bytes);
Digest digest_of(std::string_view words);

std::string to_hex(const Digest& digest);                        // lower case
std::optional<Digest> digest_from_hex(std::string_view digits);  // exactly what to_hex writes

}  // namespace shade::io
