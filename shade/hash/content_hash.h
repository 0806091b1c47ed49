// A fingerprint of many bytes, at the speed of memory: XXH3 of 128 bits (xxhash).
//
// For noticing that large tensors are not what they were. It is no proof against somebody who makes bytes on purpose;
// that is hash/digest.h, at a tenth of the speed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shade::hash {

using ContentHash = std::array<uint64_t, 2>;  // low 64 bits, high 64 bits
using HashSecret = std::array<uint8_t, 192>;  // without it nothing can be told from a hash but equality

// Hash with XXH3's default secret, which is public.
ContentHash content_hash(std::span<const std::byte> bytes);
// Hash with the caller's secret.
ContentHash content_hash(std::span<const std::byte> bytes, const HashSecret& secret);

}  // namespace shade::hash
