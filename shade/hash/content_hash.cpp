#include "shade/hash/content_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace shade::hash {

ContentHash content_hash(std::span<const std::byte> bytes) {
  const auto hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

ContentHash content_hash(std::span<const std::byte> bytes, const HashSecret& secret) {
  static_assert(sizeof(HashSecret) >= XXH3_SECRET_SIZE_MIN);
  const auto hash = XXH3_128bits_withSecret(bytes.data(), bytes.size(), secret.data(), secret.size());
  return {hash.low64, hash.high64};
}

}  // namespace shade::hash
