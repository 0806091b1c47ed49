#include "shade/privacy/exact_kernels.h"

#include <algorithm>
#include <cstring>

#include "shade/privacy/kernel_code.h"

#if SHADE_X86_VARIANTS
#include <immintrin.h>
#endif

namespace shade::privacy {
namespace {

// Additions of one lane can't be reordered by a compiler; those of many lanes it does side by side.
constexpr int kSideBySide = 32;

SHADE_INLINE double widened(float x) { return x; }
SHADE_INLINE double widened(double x) { return x; }
SHADE_INLINE double widened(c10::BFloat16 x) {
  const uint32_t bits = uint32_t{x.x} << 16;
  float out;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}

// Adding 1.5 2^52 spacings leaves no digits below the spacing.
template <class Number>
SHADE_INLINE void terms(const Number* x, double c, double spacing, int64_t count, double* __restrict sums, bool adds) {
  const double far = 0x1.8p52 * spacing;
  if (adds)
    for (int64_t i = 0; i < count; ++i) sums[i] += (widened(x[i]) * c + far) - far;
  else
    for (int64_t i = 0; i < count; ++i) sums[i] = (widened(x[i]) * c + far) - far;
}

#if SHADE_X86_VARIANTS
SHADE_AVX512 void copy_avx512(const double* from, int64_t count, double* to) {
  constexpr int64_t kLine = 8;
  const auto to_line = static_cast<int64_t>((64 - reinterpret_cast<uintptr_t>(to) % 64) % 64 / sizeof(double));
  const auto head = std::min(count, to_line), whole = head + (count - head) / kLine * kLine;
  std::copy_n(from, head, to);
  for (int64_t i = head; i < whole; i += kLine) _mm512_stream_pd(to + i, _mm512_loadu_pd(from + i));
  std::copy(from + whole, from + count, to + whole);
  _mm_sfence();
}
#endif

template <class Number>
SHADE_INLINE void products(const Number* x, const Number* y, int64_t count, double* __restrict sums) {
  if (y == nullptr)
    for (int64_t i = 0; i < count; ++i) sums[i] += widened(x[i]);
  else
    for (int64_t i = 0; i < count; ++i) sums[i] += widened(x[i]) * widened(y[i]);
}

SHADE_INLINE double total(const double* lanes) {
  double sums[kSideBySide];
  for (int i = 0; i < kSideBySide; ++i) sums[i] = lanes[i];
  for (int half = kSideBySide / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
  return sums[0];
}

template <class Number>
SHADE_INLINE double squares(const Number* x, int64_t count) {
  double lanes[kSideBySide] = {};
  int64_t i = 0;
  for (; i + kSideBySide <= count; i += kSideBySide)
    for (int j = 0; j < kSideBySide; ++j) lanes[j] += widened(x[i + j]) * widened(x[i + j]);
  for (int j = 0; i < count; ++i, ++j) lanes[j] += widened(x[i]) * widened(x[i]);
  return total(lanes);
}

template <class Number>
SHADE_INLINE GramRow row(const Number* a, const Number* g, const double* a_norms, const double* g_norms,
                         int64_t count) {
  double both[kSideBySide] = {}, by_a[kSideBySide] = {}, by_g[kSideBySide] = {};
  int64_t s = 0;
  for (; s + kSideBySide <= count; s += kSideBySide)
    for (int j = 0; j < kSideBySide; ++j) {
      both[j] += widened(a[s + j]) * widened(g[s + j]);
      by_a[j] += a_norms[s + j] * __builtin_fabs(widened(g[s + j]));
      by_g[j] += g_norms[s + j] * __builtin_fabs(widened(a[s + j]));
    }
  for (int j = 0; s < count; ++s, ++j) {
    both[j] += widened(a[s]) * widened(g[s]);
    by_a[j] += a_norms[s] * __builtin_fabs(widened(g[s]));
    by_g[j] += g_norms[s] * __builtin_fabs(widened(a[s]));
  }
  return {total(both), total(by_a), total(by_g)};
}

// One kernel compiled for each kind of processor; which one runs is decided at each call.
#if SHADE_X86_VARIANTS
#define SHADE_KERNEL(result, name, parameters, call) \
  template <class Number>                            \
  SHADE_AVX2 result name##_avx2 parameters {         \
    return call;                                     \
  }                                                  \
  template <class Number>                            \
  SHADE_AVX512 result name##_avx512 parameters {     \
    return call;                                     \
  }
#define SHADE_RUN(name, ...)                                                 \
  if (variant == Variant::avx512) return name##_avx512<Number>(__VA_ARGS__); \
  if (variant == Variant::avx2) return name##_avx2<Number>(__VA_ARGS__);
#else
#define SHADE_KERNEL(result, name, parameters, call)
#define SHADE_RUN(name, ...)
#endif

SHADE_KERNEL(void, terms, (const Number* x, double c, double spacing, int64_t count, double* sums, bool adds),
             terms(x, c, spacing, count, sums, adds))
SHADE_KERNEL(void, products, (const Number* x, const Number* y, int64_t count, double* sums),
             products(x, y, count, sums))
SHADE_KERNEL(double, squares, (const Number* x, int64_t count), squares(x, count))
SHADE_KERNEL(GramRow, row,
             (const Number* a, const Number* g, const double* a_norms, const double* g_norms, int64_t count),
             row(a, g, a_norms, g_norms, count))

}  // namespace

template <class Number>
void add_terms(const Number* x, double c, double spacing, int64_t count, double* sums, bool adds, Variant variant) {
  SHADE_RUN(terms, x, c, spacing, count, sums, adds)
  terms(x, c, spacing, count, sums, adds);
}

void copy_past_caches(const double* from, int64_t count, double* to, [[maybe_unused]] Variant variant) {
#if SHADE_X86_VARIANTS
  if (variant == Variant::avx512) return copy_avx512(from, count, to);
#endif
  std::copy_n(from, count, to);
}

template <class Number>
void add_products(const Number* x, const Number* y, int64_t count, double* sums, Variant variant) {
  SHADE_RUN(products, x, y, count, sums)
  products(x, y, count, sums);
}

template <class Number>
double sum_of_squares(const Number* x, int64_t count, Variant variant) {
  SHADE_RUN(squares, x, count)
  return squares(x, count);
}

template <class Number>
GramRow gram_row(const Number* a, const Number* g, const double* a_norms, const double* g_norms, int64_t count,
                 Variant variant) {
  SHADE_RUN(row, a, g, a_norms, g_norms, count)
  return row(a, g, a_norms, g_norms, count);
}

#define SHADE_FOR(Number)                                                                  \
  template void add_terms(const Number*, double, double, int64_t, double*, bool, Variant); \
  template void add_products(const Number*, const Number*, int64_t, double*, Variant);     \
  template double sum_of_squares(const Number*, int64_t, Variant);                         \
  template GramRow gram_row(const Number*, const Number*, const double*, const double*, int64_t, Variant);
SHADE_FOR(float)
SHADE_FOR(double)
SHADE_FOR(c10::BFloat16)

}  // namespace shade::privacy
