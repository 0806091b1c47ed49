#include "shade/privacy/noise.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "shade/base/error.h"
#include "shade/privacy/normal.h"

namespace shade::privacy {
namespace {

struct Subkey {
  uint8_t bytes[32];
  ~Subkey() { sodium_memzero(bytes, sizeof bytes); }
};

void put(uint8_t*& to, uint64_t value) {
  for (int i = 0; i < 8; ++i) *to++ = static_cast<uint8_t>(value >> (8 * i));
}

// One for each (step, stream), and each used from block 0 on: no counter is met twice.
Subkey subkey(const NoiseKey& key, uint64_t step, int64_t stream) {
  uint8_t message[16];
  auto* at = message;
  put(at, step);
  put(at, static_cast<uint64_t>(stream));
  Subkey out;
  crypto_generichash(out.bytes, sizeof out.bytes, message, sizeof message, key.data(), key.size());
  return out;
}

// Numbers 256 chunk .. 256 chunk + 255 of a stream.
void fill(const Subkey& key, int64_t chunk, float* out) {
  alignas(64) uint32_t words[kNormalChunk];
  chacha20_chunk(key.bytes, static_cast<uint64_t>(chunk), words);
  normals(words, out);
}

}  // namespace

Noise::~Noise() { sodium_memzero(key_.data(), key_.size()); }

void Noise::add(at::Tensor flat, double deviation, uint64_t step, int64_t weight, int64_t begin) const {
  if (flat.numel() == 0 || deviation == 0) return;
  SHADE_CHECK(flat.dim() == 1 && flat.is_contiguous() &&
                  (flat.scalar_type() == at::kFloat || flat.scalar_type() == at::kDouble),
              "noise is added to flat fp32 or fp64 gradients, not to ", flat.toString(), " of shape ", flat.sizes());
  const bool elsewhere = !flat.is_cpu();
  const auto target = elsewhere ? at::zeros(flat.sizes(), flat.options().device(at::kCPU)) : flat;
  const auto key = subkey(key_, step, weight);
  const int64_t end = begin + flat.numel();
  const int64_t first = begin / kNormalChunk, last = (end + kNormalChunk - 1) / kNormalChunk;
  AT_DISPATCH_FLOATING_TYPES(flat.scalar_type(), "noise", [&] {
    auto* out = target.data_ptr<scalar_t>();
    const auto scale = static_cast<scalar_t>(deviation);
    at::parallel_for(first, last, 64, [&](int64_t from, int64_t to) {
      alignas(64) float drawn[kNormalChunk];
      for (int64_t chunk = from; chunk < to; ++chunk) {
        fill(key, chunk, drawn);
        const int64_t start = chunk * kNormalChunk;
        const int64_t low = std::max(begin, start), high = std::min(end, start + kNormalChunk);
        const float* source = drawn + (low - start);
        scalar_t* sink = out + (low - begin);
        for (int64_t i = 0; i < high - low; ++i) sink[i] += scale * static_cast<scalar_t>(source[i]);
      }
    });
  });
  if (elsewhere) flat.add_(target.to(flat.device()));
}

double Noise::draw(uint64_t step, int64_t stream) const {
  SHADE_CHECK(stream < 0, "streams of weights are counted from 0, others down from -1");
  alignas(64) float drawn[kNormalChunk];
  fill(subkey(key_, step, stream), 0, drawn);
  return static_cast<double>(drawn[0]);
}

}  // namespace shade::privacy
