// BLAKE2b of libsodium, 16 bytes of it as hex: names and vouches for files of ours.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace shade::data {

class Checksum {
 public:
  Checksum();
  void add(std::span<const std::byte> bytes);
  void add(std::string_view words) { add(std::as_bytes(std::span(words))); }
  std::string hex();  // once, at the end

 private:
  alignas(64) std::array<unsigned char, 384> state_;
};

std::string checksum_of(std::string_view words);

}  // namespace shade::data
