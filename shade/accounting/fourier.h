// Fourier transforms of real numbers whose count is a power of two, with an error that is bounded: an epsilon counts
// it. No library: FFTW is under the GPL, MKL's inside libtorch states no bound, and accounting works without libtorch.
#pragma once

#include <complex>
#include <span>
#include <vector>

namespace shade::privacy {

// The first n / 2 + 1 numbers of the transform of n >= 4; the others are their conjugates. The error is at most
// log2(n) * 4.25 * 2^-52 times the result in the 2-norm of all n numbers, and in each number times the sum of |values|:
// radix 2 with factors that are right to 2^-52 (Higham, Accuracy and Stability of Numerical Algorithms, theorem 24.2).
std::vector<std::complex<double>> real_transform(std::span<const double> values);

// The n real numbers of such a transform, with the same bound.
std::vector<double> inverse_real_transform(std::span<const std::complex<double>> transformed);

}  // namespace shade::privacy
