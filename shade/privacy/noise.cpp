#include "shade/privacy/noise.h"

#include <ATen/ATen.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "shade/base/error.h"
#include "shade/base/execution.h"
#include "shade/base/parallel.h"
#include "shade/privacy/chacha20.h"
#include "shade/privacy/device_noise.h"
#include "shade/privacy/exact_arithmetic.h"
#include "shade/privacy/grid.h"
#include "shade/privacy/ideal_normal.h"
#include "shade/privacy/noise_lane.h"
#include "shade/privacy/normal.h"

namespace shade::privacy {
namespace {

void put(uint8_t*& to, uint64_t value) {
  for (int i = 0; i < 8; ++i) *to++ = static_cast<uint8_t>(value >> (8 * i));
}

// One for each (step, stream), and each used from block 0 on: no counter is used twice. The purpose keeps them apart
// from the sampler's (data/keyed_bits.h), whatever key that has.
NoiseKey subkey(const NoiseKey& key, uint64_t step, int64_t stream) {
  uint8_t message[16];
  auto* at = message;
  put(at, step);
  put(at, static_cast<uint64_t>(stream));
  return derived_key(key, "shade noise", std::as_bytes(std::span(message)));
}

// Numbers 256 chunk .. 256 chunk + 255 of a stream, from 32 blocks.
void fill(const uint32_t (&key)[8], int64_t chunk, Normals& out) {
  alignas(64) uint32_t words[kNormalWords];
  static_assert(kNormalWords == 2 * kChaChaWords);
  for (const int half : {0, 1})
    chacha20_chunk(reinterpret_cast<const uint8_t*>(key),
                   2 * static_cast<uint64_t>(chunk) + static_cast<uint64_t>(half), words + kChaChaWords * half);
  normals(words, out);
}

struct Wiped : NoiseTask {
  ~Wiped() { sodium_memzero(key, sizeof key); }
};

constexpr int64_t kAtOnce = 64;  // chunks whose undecided elements are decided together

// The next flag that is set, or null.
const uint8_t* next_flag(const uint8_t* from, const uint8_t* end) {
  return from == end ? nullptr : static_cast<const uint8_t*>(std::memchr(from, 1, static_cast<size_t>(end - from)));
}

// Elements [begin, end) of the task; sums[0] is element task.begin. What is undecided is collected, and decided when
// the fast path has passed over all of them, so that it has no branch on a drawn number.
void add_chunks(const NoiseTask& task, int64_t begin, int64_t end, double* sums) {
  require_exact_arithmetic();
  Normals drawn;
  std::array<uint8_t, kAtOnce * kNormalChunk> undecided;
  for (auto from = begin; from < end;) {
    const auto first = from / kNormalChunk, to = std::min(end, (first + kAtOnce) * kNormalChunk);
    for (auto at = from; at < to;) {
      const auto chunk = at / kNormalChunk, start = chunk * kNormalChunk, stop = std::min(to, start + kNormalChunk);
      fill(task.key, chunk, drawn);
      add_on_grid(task.grid, drawn, at - start, stop - at, sums + (at - task.begin), undecided.data() + (at - from));
      at = stop;
    }
    const auto* const last = undecided.data() + (to - from);
    for (const auto* flag = undecided.data(); (flag = next_flag(flag, last)) != nullptr; ++flag) {
      const auto element = from + (flag - undecided.data());
      auto& sum = sums[element - task.begin];
      sum = ideal_sum(task.grid, sum, task.key, element);
    }
    from = to;
  }
}

class IndependentNoise : public NoiseSource {
 public:
  explicit IndependentNoise(std::function<NoiseKey(int64_t)> key) : key_(std::move(key)) {}

  void add(at::Tensor flat, double deviation, int64_t step, int64_t weight, int64_t begin) const override {
    Noise(key_(step)).add(std::move(flat), deviation, static_cast<uint64_t>(step), weight, begin);
  }
  double added(double value, double deviation, int64_t step, int64_t stream) const override {
    return Noise(key_(step)).added(value, deviation, static_cast<uint64_t>(step), stream);
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
  SHADE_CHECK(flat.dim() == 1 && flat.is_contiguous() && flat.scalar_type() == at::kDouble,
              "noise is added to flat gradients in fp64, not to ", flat.toString(), " of shape ", flat.sizes());
  if (flat.is_meta()) {  // a plan of a step, without numbers
    const auto bytes = static_cast<double>(flat.nbytes());
    return say_skipped(
        {.name = "noise", .element_size = static_cast<int64_t>(flat.element_size()), .read = bytes, .written = bytes});
  }
  const Wiped drawn{task(deviation, step, weight, begin, flat.numel())};
  if (noise_on_device(flat.device())) return add_noise_on_device(drawn, flat);
  // Sums on another device come here: added there by libtorch, the noise would leave the grid.
  const auto sums = flat.cpu();
  auto* const out = sums.data_ptr<double>();
  const auto first = begin / kNormalChunk, last = (drawn.end + kNormalChunk - 1) / kNormalChunk;
  parallel_for(first, last, kAtOnce, [&](int64_t from, int64_t to) {
    add_chunks(drawn, std::max(begin, from * kNormalChunk), std::min(drawn.end, to * kNormalChunk), out);
  });
  if (!flat.is_cpu()) flat.copy_(sums);
}

NoiseTask Noise::task(double deviation, uint64_t step, int64_t weight, int64_t begin, int64_t size) const {
  const auto key = subkey(key_, step, weight);
  NoiseTask out{.key = {}, .grid = Grid(deviation), .begin = begin, .end = begin + size};
  std::memcpy(out.key, key.data(), sizeof out.key);  // little-endian, as in chacha20.cpp
  return out;
}

double Noise::added(double value, double deviation, uint64_t step, int64_t stream) const {
  SHADE_CHECK(stream < 0, "streams of weights are counted from 0, others down from -1");
  if (deviation != 0) add_chunks(Wiped{task(deviation, step, stream, 0, 1)}, 0, 1, &value);
  return value;
}

}  // namespace shade::privacy
