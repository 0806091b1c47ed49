#include "shade/train/step/sum_digest.h"

#include <ATen/ATen.h>
#include <sodium.h>

#include <bit>

#include "shade/base/error.h"
#include "shade/hash/content_hash.h"
#include "shade/io/dtype.h"

namespace shade::train {

hash::Digest sum_digest(const privacy::NoiseKey& key, std::span<const shard::LocalShard> shards,
                        const std::vector<double>& others, const comm::Group& group) {
  const auto own = privacy::derived_key(key, "shade clip sum");
  hash::HashSecret secret;
  const std::array<uint8_t, crypto_stream_chacha20_NONCEBYTES> nonce{};
  crypto_stream_chacha20(secret.data(), secret.size(), nonce.data(), own.data());
  std::vector<uint64_t> words;
  for (const auto number : others) words.push_back(std::bit_cast<uint64_t>(number));
  for (const auto& shard : shards) {
    if (shard.gradient.is_meta()) continue;  // a plan has no sum
    SHADE_CHECK(shard.gradient.is_cpu() && shard.gradient.is_contiguous(), "gradients on the CPU are hashed");
    for (const auto& run : shard.runs) {
      const auto part = shard.gradient.narrow(0, run.at, run.size);
      const auto hash = hash::content_hash(io::bytes_of(part), secret);
      words.insert(words.end(), {static_cast<uint64_t>(run.weight->id()), static_cast<uint64_t>(run.begin),
                                 static_cast<uint64_t>(run.size), hash[0], hash[1]});
    }
  }
  const auto keyed = [&](std::span<const std::byte> bytes) {
    hash::Digest out;
    crypto_generichash(out.data(), out.size(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                       own.data(), own.size());
    return out;
  };
  auto mine = keyed(std::as_bytes(std::span(words)));
  const auto length = static_cast<int64_t>(mine.size());
  const auto all = at::empty({length * group.size()}, at::kByte);
  group.all_gather(all, at::from_blob(mine.data(), {length}, at::kByte), {.label = "hash of the sum"}).wait();
  const auto out = keyed(std::as_bytes(std::span(all.data_ptr<uint8_t>(), static_cast<size_t>(all.numel()))));
  sodium_memzero(secret.data(), secret.size());
  return out;
}

}  // namespace shade::train
