#include "shade/hash/digest.h"

#include <sodium.h>

#include <algorithm>

#include "shade/base/error.h"

namespace shade::hash {
namespace {

auto* state_of(std::array<unsigned char, 384>& bytes) {
  static_assert(sizeof(crypto_generichash_state) <= 384 && alignof(crypto_generichash_state) <= 64);
  return reinterpret_cast<crypto_generichash_state*>(bytes.data());
}

}  // namespace

Hasher::Hasher() {
  // It chooses the fastest form for this processor, and may be called often and from anywhere.
  static const int ready = sodium_init();
  SHADE_CHECK(ready >= 0, "libsodium could not be started");
  crypto_generichash_init(state_of(state_), nullptr, 0, Digest{}.size());
}

Hasher& Hasher::add(std::span<const std::byte> bytes) {
  crypto_generichash_update(state_of(state_), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  return *this;
}

Digest Hasher::digest() {
  Digest out;
  crypto_generichash_final(state_of(state_), out.data(), out.size());
  return out;
}

Digest digest_of(std::span<const std::byte> bytes) { return Hasher().add(bytes).digest(); }

Digest digest_of(std::string_view words) { return Hasher().add(words).digest(); }

std::string to_hex(const Digest& digest) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const auto byte : digest) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

std::optional<Digest> digest_from_hex(std::string_view digits) {
  if (digits.size() != kDigestDigits) return std::nullopt;
  const auto value = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  Digest out{};
  for (size_t i = 0; i < out.size(); ++i) {
    const int high = value(digits[2 * i]), low = value(digits[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return out;
}

std::string sha256_of(const io::MappedFile& file) {
  constexpr size_t kPart = size_t{16} << 20;
  static_assert(crypto_hash_sha256_BYTES == Digest{}.size());
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  const auto bytes = file.bytes();
  for (size_t at = 0; at < bytes.size(); at += kPart) {
    const auto part = bytes.subspan(at, std::min(kPart, bytes.size() - at));
    crypto_hash_sha256_update(&state, reinterpret_cast<const unsigned char*>(part.data()), part.size());
    file.drop(part);
  }
  Digest out;
  crypto_hash_sha256_final(&state, out.data());
  return to_hex(out);
}

std::string sha256_of(std::string_view bytes) {
  Digest out;
  crypto_hash_sha256(out.data(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  return to_hex(out);
}

}  // namespace shade::hash
