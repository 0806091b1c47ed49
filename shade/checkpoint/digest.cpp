#include "shade/checkpoint/digest.h"

#include <sodium.h>

#include "shade/base/error.h"

namespace shade::checkpoint {
namespace {

// crypto_generichash chooses its fastest form in sodium_init(), which may be called often and from anywhere.
void start() {
  static const int ready = sodium_init();
  SHADE_CHECK(ready >= 0, "libsodium could not be started");
}

}  // namespace

Digest digest_of(std::span<const std::byte> bytes) {
  start();
  Digest out;
  crypto_generichash(out.data(), out.size(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                     nullptr, 0);
  return out;
}

Digest digest_of(std::string_view words) { return digest_of(std::as_bytes(std::span(words))); }

Digest chained(const Digest& previous, std::string_view words) {
  std::string both(previous.begin(), previous.end());
  return digest_of(both.append(words));
}

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

}  // namespace shade::checkpoint
