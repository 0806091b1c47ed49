#include "shade/io/sha256.h"

#include <sodium.h>

#include <algorithm>

#include "shade/io/digest.h"

namespace shade::io {

std::string sha256_of(const MappedFile& file) {
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

}  // namespace shade::io
