#include "shade/privacy/normal.h"

#include "shade/privacy/normal_pair.h"

namespace shade::privacy {
namespace {

constexpr int kPairs = kNormalChunk / 2;

template <bool fused>
SHADE_INLINE void compute(const uint32_t* words, Normals& out) {
  SHADE_INTERLEAVED
  for (int i = 0; i < kPairs; ++i) {
    const auto radius = known_radius<fused>(words[i], words[kPairs + i]);
    out.high[i] = radius.high, out.low[i] = radius.low;
  }
  SHADE_INTERLEAVED
  for (int i = 0; i < kPairs; ++i) {
    const auto [along, across] =
        normal_pair<fused>({out.high[i], out.low[i]}, words[2 * kPairs + i], words[3 * kPairs + i]);
    out.high[i] = along.high, out.low[i] = along.low;
    out.high[kPairs + i] = across.high, out.low[kPairs + i] = across.low;
  }
}

#if SHADE_X86_VARIANTS
SHADE_AVX2 void normals_avx2(const uint32_t* words, Normals& out) { compute<true>(words, out); }
SHADE_AVX512 void normals_avx512(const uint32_t* words, Normals& out) { compute<true>(words, out); }
#endif

}  // namespace

void normals(const uint32_t words[kNormalWords], Normals& out, Variant variant) {
#if SHADE_X86_VARIANTS
  if (variant == Variant::avx512) return normals_avx512(words, out);
  if (variant == Variant::avx2) return normals_avx2(words, out);
#endif
  compute<SHADE_BASELINE_FUSED>(words, out);
}

}  // namespace shade::privacy
