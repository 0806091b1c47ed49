// Keys of a private run. All randomness of a step, its batch and its noise, is a function of a key and the step.
//
//   run key            from the operating system, in the run directory until the run is finished
//   incarnation key    derived from the run key and random bytes that the ledger keeps (checkpoint/ledger.h)
//   purposes           derived from the incarnation key: sampler, hash of clipped sums; the noise uses it directly
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <tuple>

namespace shade::privacy {

// 32 bytes that nobody else may know; every copy is wiped when it ends.
class NoiseKey {
 public:
  using Bytes = std::array<uint8_t, 32>;

  NoiseKey() = default;  // zeros
  explicit NoiseKey(const Bytes& bytes) : bytes_(bytes) {}
  NoiseKey(const NoiseKey&) = default;
  NoiseKey& operator=(const NoiseKey&) = default;
  ~NoiseKey();

  const Bytes& bytes() const { return bytes_; }
  uint8_t* data() { return bytes_.data(); }
  const uint8_t* data() const { return bytes_.data(); }
  static constexpr size_t size() { return std::tuple_size_v<Bytes>; }
  bool operator==(const NoiseKey&) const = default;

 private:
  Bytes bytes_{};
};

NoiseKey secret_key();               // from the operating system
NoiseKey seeded_key(uint64_t seed);  // repeatable: anyone who knows the seed can subtract the noise

// By keyed BLAKE2b, whose parameter block has a place for the purpose (at most 16 bytes): keys of different purposes
// share nothing.
NoiseKey derived_key(const NoiseKey& key, std::string_view purpose, std::span<const std::byte> message = {});

}  // namespace shade::privacy
