// Functions of the noise that processors and GPUs share: one source, compiled by each compiler without contraction, and
// the same bits. What a GPU calls by another name has one here.
#pragma once

#ifdef __CUDACC__
#define SHADE_INLINE __host__ __device__ __forceinline__
#else
#define SHADE_INLINE inline __attribute__((always_inline))
#endif

namespace shade::privacy {

// a b + c, rounded once.
SHADE_INLINE float multiply_add(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

// Rounded once.
SHADE_INLINE float rounded_root(float a) {
#ifdef __CUDA_ARCH__
  return __fsqrt_rn(a);
#else
  return __builtin_sqrtf(a);
#endif
}

// The nearest integer, the even one of two.
SHADE_INLINE double nearest_integer(double a) {
#ifdef __CUDA_ARCH__
  return rint(a);
#else
  return __builtin_nearbyint(a);
#endif
}

SHADE_INLINE double magnitude(double a) {
#ifdef __CUDA_ARCH__
  return fabs(a);
#else
  return __builtin_fabs(a);
#endif
}

}  // namespace shade::privacy
