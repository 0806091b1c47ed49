#include "shade/privacy/noise.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "shade/base/error.h"
#include "shade/base/shaped_work.h"
#include "shade/privacy/chacha20.h"
#include "shade/privacy/device_noise.h"
#include "shade/privacy/grid.h"
#include "shade/privacy/normal.h"

namespace shade::privacy {
namespace {

void put(uint8_t*& to, uint64_t value) {
  for (int i = 0; i < 8; ++i) *to++ = static_cast<uint8_t>(value >> (8 * i));
}

// One for each (step, stream), and each used from block 0 on: no counter is met twice. The purpose keeps them apart
// from the sampler's (data/keyed_bits.h), whatever key that has.
NoiseKey subkey(const NoiseKey& key, uint64_t step, int64_t stream) {
  uint8_t message[16];
  auto* at = message;
  put(at, step);
  put(at, static_cast<uint64_t>(stream));
  return derived_key(key, "shade noise", std::as_bytes(std::span(message)));
}

// Numbers 256 chunk .. 256 chunk + 255 of a stream, from 32 blocks.
void fill(const NoiseKey& key, int64_t chunk, Normals& out) {
  alignas(64) uint32_t words[kNormalWords];
  static_assert(kNormalWords == 2 * kChaChaWords);
  for (const int half : {0, 1})
    chacha20_chunk(key.data(), 2 * static_cast<uint64_t>(chunk) + static_cast<uint64_t>(half),
                   words + kChaChaWords * half);
  normals(words, out);
}

class IndependentNoise : public NoiseSource {
 public:
  explicit IndependentNoise(std::function<NoiseKey(int64_t)> key) : key_(std::move(key)) {}

  void add(at::Tensor flat, double deviation, int64_t step, int64_t weight, int64_t begin) const override {
    Noise(key_(step)).add(std::move(flat), deviation, static_cast<uint64_t>(step), weight, begin);
  }
  double draw(int64_t step, int64_t stream) const override {
    return Noise(key_(step)).draw(static_cast<uint64_t>(step), stream);
  }

 private:
  std::function<NoiseKey(int64_t)> key_;
};

}  // namespace

std::unique_ptr<NoiseSource> independent_noise(std::function<NoiseKey(int64_t step)> key) {
  return std::make_unique<IndependentNoise>(std::move(key));
}

void Noise::add(at::Tensor flat, double deviation, uint64_t step, int64_t weight, int64_t begin) const {
  if (flat.numel() == 0 || deviation == 0) return;
  SHADE_CHECK(flat.dim() == 1 && flat.is_contiguous() &&
                  (flat.scalar_type() == at::kFloat || flat.scalar_type() == at::kDouble),
              "noise is added to flat fp32 or fp64 gradients, not to ", flat.toString(), " of shape ", flat.sizes());
  if (flat.is_meta()) {  // a plan of a step, without numbers
    const auto bytes = static_cast<double>(flat.nbytes());
    return WorkSkipped::say(
        {.name = "noise", .element_size = static_cast<int64_t>(flat.element_size()), .read = bytes, .written = bytes});
  }
  if (noise_on_device(flat.device())) {
    auto there = task(deviation, step, weight, begin, flat.numel());
    add_noise_on_device(there, flat);
    sodium_memzero(there.key, sizeof there.key);
    return;
  }
  // Sums on another device come here: added there by libtorch in fp32, the noise would leave the grid.
  const auto sums = flat.cpu();
  const Grid grid(deviation);
  const auto key = subkey(key_, step, weight);
  const int64_t end = begin + flat.numel();
  const int64_t first = begin / kNormalChunk, last = (end + kNormalChunk - 1) / kNormalChunk;
  AT_DISPATCH_FLOATING_TYPES(flat.scalar_type(), "noise", [&] {
    auto* out = sums.data_ptr<scalar_t>();
    at::parallel_for(first, last, 64, [&](int64_t from, int64_t to) {
      Normals drawn;
      for (int64_t chunk = from; chunk < to; ++chunk) {
        fill(key, chunk, drawn);
        const int64_t start = chunk * kNormalChunk;
        const int64_t low = std::max(begin, start), high = std::min(end, start + kNormalChunk);
        add_on_grid(grid, drawn, low - start, high - low, out + (low - begin));
      }
    });
  });
  if (!flat.is_cpu()) flat.copy_(sums);
}

NoiseTask Noise::task(double deviation, uint64_t step, int64_t weight, int64_t begin, int64_t size) const {
  const auto key = subkey(key_, step, weight);
  NoiseTask out{.key = {}, .grid = Grid(deviation), .begin = begin, .end = begin + size};
  std::memcpy(out.key, key.data(), sizeof out.key);  // little-endian, as in chacha20.cpp
  return out;
}

double Noise::draw(uint64_t step, int64_t stream) const {
  SHADE_CHECK(stream < 0, "streams of weights are counted from 0, others down from -1");
  Normals drawn;
  fill(subkey(key_, step, stream), 0, drawn);
  return static_cast<double>(drawn.high[0]) + static_cast<double>(drawn.low[0]);
}

}  // namespace shade::privacy
