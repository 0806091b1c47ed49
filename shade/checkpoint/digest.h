// What bytes are known by: BLAKE2b of 256 bits (libsodium).
//
// A checkpoint is a tree of digests: LATEST names the manifest's, the manifest that of every file's header, a header
// that of every tensor in the file. So a rank proves what it reads without reading what it doesn't need. A CRC would be
// ten times as fast, but one damaged piece in four thousand million would pass it, and anybody can make bytes for one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shade::checkpoint {

using Digest = std::array<uint8_t, 32>;
inline constexpr size_t kDigestDigits = 64;

Digest digest_of(std::span<const std::byte> bytes);
Digest digest_of(std::string_view words);
Digest chained(const Digest& previous, std::string_view words);  // of both

std::string to_hex(const Digest& digest);                        // lower case
std::optional<Digest> digest_from_hex(std::string_view digits);  // exactly what to_hex writes

}  // namespace shade::checkpoint
