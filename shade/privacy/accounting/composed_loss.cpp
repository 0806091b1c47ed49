#include "shade/privacy/accounting/composed_loss.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <limits>

#include "shade/base/error.h"
#include "shade/privacy/accounting/cumulants.h"

namespace shade::privacy {
namespace {

using Complex = c10::complex<double>;
constexpr double kUlp = std::numeric_limits<double>::epsilon();

int64_t modulo(int64_t value, int64_t n) { return ((value % n) + n) % n; }

struct Tilted {
  double log_total;  // log E e^(t loss)
  double mean;       // of the tilted loss
};

Tilted tilted(const LossPmf& pmf, double t) {
  const auto loss = [&](size_t i) { return static_cast<double>(pmf.first + static_cast<int64_t>(i)) * pmf.step; };
  double largest = -INFINITY, sum = 0, weighted = 0;
  for (size_t i = 0; i < pmf.mass.size(); ++i)
    if (pmf.mass[i] > 0) largest = std::max(largest, t * loss(i));
  for (size_t i = 0; i < pmf.mass.size(); ++i) {
    if (pmf.mass[i] == 0) continue;
    const double mass = pmf.mass[i] * std::exp(t * loss(i) - largest);
    sum += mass;
    weighted += mass * loss(i);
  }
  return {largest + std::log(sum), weighted / sum};
}

// Folded into the window around `centre`, so that phases stay small.
at::Tensor transform(const LossPmf& pmf, double tilt, double log_total, int64_t centre, int64_t n) {
  auto folded = at::zeros({n}, at::kDouble);
  auto* out = folded.mutable_data_ptr<double>();
  for (size_t i = 0; i < pmf.mass.size(); ++i) {
    if (pmf.mass[i] == 0) continue;
    const int64_t index = pmf.first + static_cast<int64_t>(i);
    out[modulo(index - centre, n)] += pmf.mass[i] * std::exp(tilt * static_cast<double>(index) * pmf.step - log_total);
  }
  return at::fft_rfft(folded);
}

Complex power(Complex z, double n) {
  const double size = std::abs(z);
  return size == 0 ? Complex(0) : c10::polar(std::exp(n * std::log(size)), n * std::arg(z));
}

// Chernoff's bound on the mass of the tilted sum above `top`, at the tilt offered or, where the grid is too coarse for
// so large a one, at a smaller.
double log_mass_above(std::span<const RepeatedLoss> run, double tilt, double log_total, double further, double top) {
  const auto bound = [&](double t) {
    double sum = -log_total - t * top;
    for (const auto& part : run) sum += static_cast<double>(part.count) * tilted(part.pmf, tilt + t).log_total;
    return sum;
  };
  double best = bound(further);
  while (true) {
    const double next = bound(further /= 2);
    if (!(next < best)) return best;
    best = next;
  }
}

}  // namespace

ComposedLoss::ComposedLoss(std::span<const RepeatedLoss> run, const Window& window)
    : step_(run.front().pmf.step), tilt_(window.tilt), first_(static_cast<int64_t>(std::floor(window.low / step_))) {
  const at::NoGradGuard no_grad;
  const auto wanted = static_cast<int64_t>(std::ceil(window.high / step_)) - first_ + 2;
  const auto n = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(wanted, 16))));

  std::vector<Complex> product(static_cast<size_t>(n / 2 + 1), Complex(1));
  int64_t shift = 0;
  double steps = 0, log_total = 0;
  for (const auto& [pmf, repeated] : run) {
    SHADE_CHECK(pmf.step == step_, "grids of ", pmf.step, " and ", step_);
    const auto [log_one, mean] = tilted(pmf, tilt_);
    const auto centre = static_cast<int64_t>(std::llround(mean / step_));
    const auto spectrum = transform(pmf, tilt_, log_one, centre, n);
    const auto* z = spectrum.const_data_ptr<Complex>();
    const auto count = static_cast<double>(repeated);
    for (size_t i = 0; i < product.size(); ++i) product[i] *= repeated == 1 ? z[i] : power(z[i], count);
    shift += centre * repeated;
    steps += count;
    log_total += count * log_one;
    infinite_ += count * pmf.infinite;
  }
  const double top = static_cast<double>(first_ + n) * step_;
  double energy = 0;
  for (const auto& z : product) energy += 2 * std::norm(z);
  const double length = static_cast<double>(n);
  const double rounding = kUlp * std::log2(length) * (4 * steps * std::sqrt(energy) + std::sqrt(length));
  log_rest_ = log_total + log_saving(tilt_) +
              std::log(std::exp(log_mass_above(run, tilt_, log_total, window.above_tilt, top)) + rounding);
  inflation_ = 1 + 1e-13 * steps;

  const auto spectrum = at::from_blob(product.data(), {n / 2 + 1}, at::kComplexDouble);
  const auto sum = at::fft_irfft(spectrum, n);
  const auto* mass = sum.const_data_ptr<double>();
  mass_.resize(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const double loss = static_cast<double>(first_ + i) * step_;
    mass_[static_cast<size_t>(i)] =
        std::max(0.0, mass[modulo(first_ + i - shift, n)]) * std::exp(log_total - tilt_ * loss);
  }
}

double ComposedLoss::rest(double epsilon) const { return infinite_ + std::exp(log_rest_ - tilt_ * epsilon); }

// delta(e) = sum over losses l > e of (1 - e^(e - l)) mass(l). With b(j) = sum over i >= j of mass(i) e^(l_j - l_i) it
// falls from grid point to grid point by (1 - e^-step) b: a sum of positive terms, from the top down.
double ComposedLoss::delta(double epsilon) const {
  SHADE_CHECK(epsilon >= lowest(), "epsilon ", epsilon, " is below the window's ", lowest());
  double sum = 0, b = 0;
  for (size_t i = mass_.size(); i-- > 0;) {
    const double loss = static_cast<double>(first_ + static_cast<int64_t>(i)) * step_;
    if (loss <= epsilon) break;
    b = mass_[i] + std::exp(-step_) * b;
    sum -= std::expm1(std::max(epsilon - loss, -step_)) * b;
  }
  return std::min(1.0, inflation_ * sum + rest(epsilon));
}

double ComposedLoss::epsilon(double delta) const {
  double sum = 0, b = 0;
  const double decay = std::exp(-step_), drop = -std::expm1(-step_);
  for (size_t i = mass_.size(); i-- > 0;) {
    const double loss = static_cast<double>(first_ + static_cast<int64_t>(i)) * step_;
    b = mass_[i] + decay * b;
    if (inflation_ * (sum + drop * b) + rest(loss - step_) <= delta) {
      sum += drop * b;
      continue;
    }
    double low = loss - step_, high = loss;  // delta is met at high, not at low
    if (inflation_ * sum + rest(high) > delta) return std::numeric_limits<double>::infinity();
    while (true) {
      const double middle = low + (high - low) / 2;
      if (middle <= low || middle >= high) return high;
      (inflation_ * (sum - std::expm1(middle - loss) * b) + rest(middle) > delta ? low : high) = middle;
    }
  }
  return lowest();
}

}  // namespace shade::privacy
