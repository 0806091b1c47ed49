#include "shade/accounting/prv.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "shade/accounting/cumulants.h"
#include "shade/accounting/fourier.h"
#include "shade/accounting/gaussian_pair.h"
#include "shade/base/error.h"

namespace shade::privacy {
namespace {

// One step's privacy loss on a grid, pessimistically.
//
// x is cut into panels. A panel's mass under p and under q moves to the losses at the panel's two ends, and from there
// to the two grid points around each, in the one proportion that keeps both masses. That spreads the likelihood ratio
// and keeps its mean, so the pair on the grid is at least as easy to tell apart as the true one, at every epsilon and
// after any composition (the idea of Doroshenko et al. 2022, "connect the dots", without its cancellation: every mass
// here is a sum of positive terms). The error is of second order in the grid's step. Mass below the lowest x is moved
// up to it; mass above the highest x becomes an infinite loss.
// cost: about 2 x (range of the loss) / step panels, four points each, 0.3 us a panel.
struct LossPmf {
  double step = 0;           // losses are multiples of it
  int64_t first = 0;         // mass[i] sits at loss (first + i) * step
  std::vector<double> mass;  // under p
  double infinite = 0;       // mass of an infinite loss
};

// Of a mass at `loss` between the losses low and high: the part that goes to high so that p and q both keep theirs.
double part_up(double low, double loss, double high) {
  const double whole = -std::expm1(low - high);
  return whole <= 0 ? 1 : std::clamp(-std::expm1(low - loss) / whole, 0.0, 1.0);
}

void add_loss(LossPmf& pmf, double loss, double mass) {
  const double cell = std::floor(loss / pmf.step);
  const double up = mass * part_up(cell * pmf.step, loss, (cell + 1) * pmf.step);
  const auto at = static_cast<size_t>(static_cast<int64_t>(cell) - pmf.first);
  pmf.mass[at] += mass - up;
  pmf.mass[at + 1] += up;
}

// Gauss-Legendre on four points: on panels of sigma / 32 exact to the last digits, far into the tails.
constexpr std::array<std::pair<double, double>, 4> kNodes{{{-0.8611363115940526, 0.3478548451374538},
                                                           {-0.3399810435848563, 0.6521451548625461},
                                                           {0.3399810435848563, 0.6521451548625461},
                                                           {0.8611363115940526, 0.3478548451374538}}};

void add_loss(LossPmf& pmf, double probability, const GaussianPair& pair, double z) {
  const double end = pair.highest(z);
  double x = pair.lowest(z);
  auto left = pair.at(x);
  double waiting = probability * pair.mass_below(x);  // mass at the left end, until the panel on its right is known
  while (x < end) {
    // Half a cell of loss at most, and not so wide that the density is more than a short polynomial.
    const double width = std::min({pair.sigma() / 32, 0.5 * pmf.step / std::max(left.slope, 1e-300), end - x});
    const double next = width < end - x ? x + width : end;
    const auto right = pair.at(next);
    double mass = 0, up = 0;
    for (const auto& [node, weight] : kNodes) {
      const auto point = pair.at(x + (next - x) * 0.5 * (1 + node));
      const double part = probability * point.density * weight * 0.5 * (next - x);
      mass += part;
      up += part * part_up(left.loss, point.loss, right.loss);
    }
    add_loss(pmf, left.loss, waiting + std::max(0.0, mass - up));
    waiting = up;
    left = right;
    x = next;
  }
  add_loss(pmf, left.loss, waiting);
  pmf.infinite += probability * pair.mass_above(end);
}

// X to z widths beyond the shifts.
LossPmf discretise(const StepPairs& pairs, double step, double z) {
  double low = INFINITY, high = -INFINITY;
  for (const auto& [probability, pair] : pairs) {
    low = std::min(low, pair.loss(pair.lowest(z)));
    high = std::max(high, pair.loss(pair.highest(z)));
  }
  SHADE_CHECK(step > 0 && (high - low) / step < 1e8, "loss from ", low, " to ", high, " in steps of ", step);
  LossPmf pmf{.step = step, .first = static_cast<int64_t>(std::floor(low / step)) - 1};
  pmf.mass.resize(static_cast<size_t>(static_cast<int64_t>(std::floor(high / step)) - pmf.first + 3), 0.0);
  for (const auto& [probability, pair] : pairs) add_loss(pmf, probability, pair, z);
  return pmf;
}

// The privacy loss of a whole run: the sum of its steps' losses, by FFT.
//
// Each step's masses are tilted (times e^(t loss), scaled to 1) before the transform and the result is tilted
// back. The tilted sum is centred where epsilon is, so rounding and the wrap-around of a circular convolution are small
// against delta itself, not merely against 1. What remains is added to delta:
//   e^(K + log_saving(t) - t epsilon) (the tilted sum's mass above the window, by Chernoff, + rounding of the
//   transforms)
//   + the infinite losses, and a relative 1e-13 a step for the rounding of the masses.
// Mass below the window wraps to its top, which can only add.
// cost: one FFT of the window for each kind of step and one back; window: 24 deviations of the sum / step.
struct RepeatedLoss {
  LossPmf pmf;
  int64_t count;
};

struct Window {
  double tilt;        // t > 0
  double above_tilt;  // t + above_tilt is a second tilt, which bounds what lies above the window
  double low, high;   // losses
};

// All pmfs on one grid.
class ComposedLoss {
 public:
  ComposedLoss(std::span<const RepeatedLoss> run, const Window& window);

  // Upper bounds. Below the window's lowest loss nothing is known: epsilon() returns at least that, delta() wants more.
  double delta(double epsilon) const;
  double epsilon(double delta) const;
  double lowest() const { return static_cast<double>(first_) * step_; }

 private:
  double rest(double epsilon) const;  // what is added to the sum over the window

  double step_, tilt_;
  int64_t first_;
  std::vector<double> mass_;  // of loss (first_ + i) step_
  double infinite_ = 0, inflation_ = 1, log_rest_;
};

using Complex = std::complex<double>;
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
std::vector<Complex> transform(const LossPmf& pmf, double tilt, double log_total, int64_t centre, int64_t n) {
  std::vector<double> folded(static_cast<size_t>(n));
  for (size_t i = 0; i < pmf.mass.size(); ++i) {
    if (pmf.mass[i] == 0) continue;
    const int64_t index = pmf.first + static_cast<int64_t>(i);
    folded[static_cast<size_t>(modulo(index - centre, n))] +=
        pmf.mass[i] * std::exp(tilt * static_cast<double>(index) * pmf.step - log_total);
  }
  return real_transform(folded);
}

Complex power(Complex z, double n) {
  const double size = std::abs(z);
  return size == 0 ? Complex(0) : std::polar(std::exp(n * std::log(size)), n * std::arg(z));
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

ComposedLoss::ComposedLoss(std::span<const RepeatedLoss> run, const Window& window)
    : step_(run.front().pmf.step), tilt_(window.tilt), first_(static_cast<int64_t>(std::floor(window.low / step_))) {
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
    const auto count = static_cast<double>(repeated);
    for (size_t i = 0; i < product.size(); ++i) product[i] *= repeated == 1 ? spectrum[i] : power(spectrum[i], count);
    shift += centre * repeated;
    steps += count;
    log_total += count * log_one;
    infinite_ += count * pmf.infinite;
  }
  const double top = static_cast<double>(first_ + n) * step_;
  double energy = 0;
  for (const auto& z : product) energy += 2 * std::norm(z);
  const double length = static_cast<double>(n);
  const double rounding = kUlp * std::log2(length) * (4.25 * (steps + 1) * std::sqrt(energy) + 4 * std::sqrt(length));
  log_rest_ = log_total + log_saving(tilt_) +
              std::log(std::exp(log_mass_above(run, tilt_, log_total, window.above_tilt, top)) + rounding);
  inflation_ = 1 + 1e-13 * steps;

  const auto mass = inverse_real_transform(product);
  mass_.resize(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const double loss = static_cast<double>(first_ + i) * step_;
    mass_[static_cast<size_t>(i)] =
        std::max(0.0, mass[static_cast<size_t>(modulo(first_ + i - shift, n))]) * std::exp(log_total - tilt_ * loss);
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

constexpr double kLostTail = 1e-7;     // of delta: what may become an infinite loss
constexpr double kLogWindowMass = 32;  // e^-32 of the tilted sum may lie beyond either edge of the window

double total_steps(const std::vector<RepeatedPairs>& run) {
  double sum = 0;
  for (const auto& part : run) sum += static_cast<double>(part.count);
  return sum;
}

double tail_point(const std::vector<RepeatedPairs>& run, double delta) {
  return normal_tail_point(std::max(1e-290, kLostTail * delta / total_steps(run)));
}

struct Aim {
  double tilt;
  double near;  // where epsilon is expected
  Precision precision;
};

ComposedLoss compose(const std::vector<RepeatedPairs>& run, const Cumulants& cumulants, double z, const Aim& aim) {
  const auto& [tilt, near, precision] = aim;
  const auto above = cumulants.above(tilt, kLogWindowMass), below = cumulants.below(tilt, kLogWindowMass);
  const double low = std::min(below.value, near), steps = total_steps(run);
  // The grid adds about tilt (tilt + 1) 1.25 step^2 / 12 to a step's K(tilt), and K / tilt to epsilon.
  const double wanted = std::sqrt(9.6 * precision.tolerance * near / (steps * (tilt + 1)));
  const double step =
      std::max({wanted, cumulants.span() / precision.points, (above.value - low) / (2 * precision.points)});
  std::vector<RepeatedLoss> losses;
  for (const auto& [pairs, count] : run) losses.push_back({discretise(pairs, step, z), count});
  // A few losses that all end at their largest end up to two cells higher on the grid.
  const double margin = std::min(2 * steps * step, cumulants.deviation(tilt));
  return {losses, {.tilt = tilt, .above_tilt = above.tilt, .low = low, .high = above.value + margin}};
}

}  // namespace

double prv_epsilon(const std::vector<RepeatedPairs>& run, double delta, const Precision& precision) {
  require_delta(delta);
  if (run.empty()) return 0;
  const double z = tail_point(run, delta);
  const Cumulants cumulants(run, z, precision.points);
  const auto bound = cumulants.epsilon(delta);
  if (bound.value <= 0) return 0;
  const Aim aim{.tilt = bound.tilt, .near = bound.value, .precision = precision};
  const double epsilon = compose(run, cumulants, z, aim).epsilon(delta);
  SHADE_CHECK(!std::isnan(epsilon), "no epsilon at delta ", delta, " in the window around ", bound.value);
  return std::max(0.0, epsilon);
}

double prv_delta(const std::vector<RepeatedPairs>& run, double epsilon, const Precision& precision) {
  SHADE_REQUIRE(std::isfinite(epsilon) && epsilon >= 0, "epsilon ", epsilon, " is out of range; expected 0 or more");
  if (run.empty()) return 0;
  const Cumulants rough(run, tail_point(run, 1e-12), precision.points);
  const double tilt = rough.tilt_for(epsilon);
  const double bound = std::exp(rough(tilt) + log_saving(tilt) - tilt * epsilon);
  const double z = tail_point(run, std::clamp(bound, kMinDelta, 1.0));
  const Cumulants cumulants(run, z, precision.points);
  const double near = std::max(epsilon, 0.1 * cumulants.deviation(tilt));
  auto composed = compose(run, cumulants, z, {.tilt = tilt, .near = near, .precision = precision});
  return composed.delta(std::max(epsilon, composed.lowest()));
}

std::vector<RepeatedPairs> run_pairs(std::span<const Steps> steps, Direction direction) {
  std::vector<RepeatedPairs> run;
  for (const auto& [mechanism, count] : checked(steps)) run.push_back({step_pairs(mechanism, direction), count});
  return run;
}

// The record's presence is seldom harder to see than its absence, so that direction goes first.
double prv_epsilon(std::span<const Steps> steps, double delta) {
  const auto add = run_pairs(steps, Direction::add);
  const double removed = prv_epsilon(run_pairs(steps, Direction::remove), delta);
  return prv_epsilon(add, delta, kCoarse) <= removed ? removed : std::max(removed, prv_epsilon(add, delta));
}

double prv_delta(std::span<const Steps> steps, double epsilon) {
  const auto add = run_pairs(steps, Direction::add);
  const double removed = prv_delta(run_pairs(steps, Direction::remove), epsilon);
  return prv_delta(add, epsilon, kCoarse) <= removed ? removed : std::max(removed, prv_delta(add, epsilon));
}

}  // namespace shade::privacy
