#include "shade/privacy/accounting/loss_pmf.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "shade/base/error.h"

namespace shade::privacy {
namespace {

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

}  // namespace

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

}  // namespace shade::privacy
