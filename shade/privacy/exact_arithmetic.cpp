#include "shade/privacy/exact_arithmetic.h"

#include <mpfr.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "shade/base/error.h"
#include "shade/privacy/chacha20.h"
#include "shade/privacy/grid.h"
#include "shade/privacy/noise_lane.h"
#include "shade/privacy/normal.h"

namespace shade::privacy {
namespace {

// Of the results of the kernels below, by the source, in round-to-nearest arithmetic.
constexpr uint64_t kKnownBits = 0x5179e5f81e2c1389u;

uint64_t mixed(uint64_t hash, uint64_t word) { return (hash ^ word) * 0x100000001b3u; }

// Volatile: the processor's arithmetic, not the compiler's.
bool rounds_to_nearest() {
  volatile float one = 1, next = 1 + 0x1p-23f, half = 0x1p-24f;
  volatile double wide_one = 1, wide_next = 1 + 0x1p-52, wide_half = 0x1p-53;
  return one + half == 1 && next + half == 1 + 0x1p-22f && wide_one + wide_half == 1 &&
         wide_next + wide_half == 1 + 0x1p-51;
}

bool keeps_subnormal_numbers() {
  volatile float small = 0x1p-120f, scale = 0x1p-20f, tiny = 0x1p-149f, large = 0x1p30f;
  volatile double wide_small = 0x1p-1000, wide_scale = 0x1p-60;
  return small * scale == 0x1p-140f && tiny * large == 0x1p-119f && wide_small * wide_scale == 0x1p-1060;
}

// The fast path takes sixteen blocks at a time from chacha20_chunk(), the slow path single blocks from
// chacha20_words(). If they differed, a number's bits would depend on which path decides it.
bool streams_are_equal() {
  uint32_t key[8];
  for (uint32_t i = 0; i < 8; ++i) key[i] = 0x9e3779b9u * (i + 1);
  for (const uint64_t chunk : {uint64_t{0}, (uint64_t{1} << 28) - 1, uint64_t{1} << 40}) {
    alignas(64) uint32_t words[kChaChaWords];
    chacha20_chunk(reinterpret_cast<const uint8_t*>(key), chunk, words);
    for (uint64_t b = 0; b < 16; ++b) {
      uint32_t block[16];
      chacha20_words(key, 16 * chunk + b, block);
      for (size_t w = 0; w < 16; ++w)
        if (words[16 * w + b] != block[w]) return false;
    }
  }
  return true;
}

}  // namespace

uint64_t bits_of_kernels(Variant variant) {
  alignas(64) uint32_t words[kNormalWords];
  Normals drawn;
  double sums[kNormalChunk];
  uint8_t undecided[kNormalChunk];
  uint64_t state = 1, hash = 0xcbf29ce484222325u;
  for (const double deviation : {0.75, 0x1.23456789abcdep-30}) {
    for (auto& word : words)
      word = static_cast<uint32_t>((state = state * 6364136223846793005u + 1442695040888963407u) >> 32);
    for (int i = 0; i < kNormalChunk / 8; ++i) words[i] = i % 2 == 0 ? words[i] >> i : ~(words[i] >> i);  // all radii
    normals(words, drawn, variant);
    for (int i = 0; i < kNormalChunk; ++i) {
      const bool number = drawn.high[i] == drawn.high[i];  // which NaN it is depends on the processor
      hash = mixed(hash, number ? std::bit_cast<uint32_t>(drawn.high[i]) : 0);
      hash = mixed(hash, number ? std::bit_cast<uint32_t>(drawn.low[i]) : 0);
      sums[i] = deviation * (i - 100.3) * 7.1;
    }
    add_on_grid(Grid(deviation), drawn, 0, kNormalChunk, sums, undecided, variant);
    for (int i = 0; i < kNormalChunk; ++i) hash = mixed(mixed(hash, std::bit_cast<uint64_t>(sums[i])), undecided[i]);
  }
  return hash;
}

bool has_known_bits(uint64_t bits) { return bits == kKnownBits; }

void require_exact_arithmetic() {
  if (mpfr_buildopt_tls_p() == 0)
    throw Error("noise needs an MPFR that was built for threads (--enable-thread-safe), as Debian's is");
  if (!rounds_to_nearest())
    throw Error(
        "noise needs floating-point arithmetic that rounds to nearest; this thread rounds otherwise (fesetround)");
  if (!keeps_subnormal_numbers())
    throw Error(
        "noise needs subnormal numbers, which this thread takes for 0; don't call at::set_flush_denormal(true)");
  static const bool known =  // after the above: in another mode of this thread it would be false for all of them
      streams_are_equal() &&
      std::ranges::all_of(variants(), [](Variant variant) { return has_known_bits(bits_of_kernels(variant)); });
  if (!known)
    throw Error(
        "the kernels of the noise don't give the bits that are proven: they were compiled with other options "
        "(-ffast-math, contraction), or by a compiler with a fault");
}

}  // namespace shade::privacy
