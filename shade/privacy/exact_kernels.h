// What the exact sum and its norms do to numbers in memory of the host; all sums are in fp64. Every variant of the
// instructions gives the same bits.
#pragma once

#include <c10/util/BFloat16.h>

#include <cstdint>

#include "shade/privacy/variant.h"

namespace shade::privacy {

// sums[i] = (or, if it `adds`, +=) the multiple of `spacing` that is nearest to c x[i], the even one of two. Spacing: a
// power of two, at least 2^-51 |c x[i]|.
template <class Number>
void add_terms(const Number* x, double c, double spacing, int64_t count, double* sums, bool adds = true,
               Variant variant = fastest());

// Copies sums to memory that is not read again soon. On processors with AVX-512 the copy bypasses the caches: a line
// that is written as a whole needn't be read first.
void copy_past_caches(const double* from, int64_t count, double* to, Variant variant = fastest());

// sums[i] += x[i] y[i], or x[i] without `y` (null).
template <class Number>
void add_products(const Number* x, const Number* y, int64_t count, double* sums, Variant variant = fastest());

// The sum of x[i]^2, off by less than (count / 32 + 8) 2^-53 of it.
template <class Number>
double sum_of_squares(const Number* x, int64_t count, Variant variant = fastest());

// Of a row of two Gram matrices, A[s] = a_t . a_s and G[s] = g_t . g_s, with |a_s| and |g_s| beside them.
struct GramRow {
  double terms = 0;  // sum over s of A[s] G[s]
  double by_a = 0;   // sum over s of |a_s| |G[s]|
  double by_g = 0;   // sum over s of |g_s| |A[s]|
};
template <class Number>
GramRow gram_row(const Number* a, const Number* g, const double* a_norms, const double* g_norms, int64_t count,
                 Variant variant = fastest());

}  // namespace shade::privacy
