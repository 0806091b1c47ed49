#include "shade/data/checksum.h"

#include <sodium.h>

#include "shade/base/error.h"

namespace shade::data {
namespace {

constexpr size_t kSize = 16;

auto* state_of(std::array<unsigned char, 384>& bytes) {
  return reinterpret_cast<crypto_generichash_state*>(bytes.data());
}

}  // namespace

Checksum::Checksum() : state_{} {
  static_assert(sizeof(crypto_generichash_state) <= 384 && alignof(crypto_generichash_state) <= 64);
  SHADE_CHECK(sodium_init() >= 0, "libsodium did not start");
  crypto_generichash_init(state_of(state_), nullptr, 0, kSize);
}

void Checksum::add(std::span<const std::byte> bytes) {
  crypto_generichash_update(state_of(state_), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

std::string Checksum::hex() {
  std::array<unsigned char, kSize> sum{};
  crypto_generichash_final(state_of(state_), sum.data(), sum.size());
  std::array<char, 2 * kSize + 1> out{};
  return sodium_bin2hex(out.data(), out.size(), sum.data(), sum.size());
}

std::string checksum_of(std::string_view words) {
  Checksum sum;
  sum.add(words);
  return sum.hex();
}

}  // namespace shade::data
