#include "shade/privacy/accounting/prv.h"

#include <algorithm>
#include <cmath>

#include "shade/base/error.h"
#include "shade/privacy/accounting/composed_loss.h"
#include "shade/privacy/accounting/gaussian.h"

namespace shade::privacy {
namespace {

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
