// Which instructions the kernels of the noise use. All variants give the same bits; tests compare them.
#pragma once

#include <span>

namespace shade::privacy {

enum class Variant {
  portable,  // the compiler's baseline
  avx2,      // x86-64-v3, with fused multiply-add
  avx512,    // x86-64-v4
};

std::span<const Variant> variants();  // those this machine can run, the fastest last
inline Variant fastest() { return variants().back(); }

}  // namespace shade::privacy

#if defined(__x86_64__)
#define SHADE_X86_VARIANTS 1
#define SHADE_AVX2 __attribute__((target("arch=x86-64-v3")))
#define SHADE_AVX512 __attribute__((target("arch=x86-64-v4")))
#else
#define SHADE_X86_VARIANTS 0
#endif

// Whether the baseline has a fused multiply-add (x86 has not, AArch64 has).
#if defined(__FP_FAST_FMAF)
#define SHADE_BASELINE_FUSED true
#else
#define SHADE_BASELINE_FUSED false
#endif

// Four rounds of a loop side by side: kernels are chains of dependent operations, and those of one round alone leave
// half of a processor idle.
#if defined(__clang__)
#define SHADE_INTERLEAVED _Pragma("clang loop interleave_count(4)")
#else
#define SHADE_INTERLEAVED
#endif
