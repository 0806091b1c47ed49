#include "shade/accounting/calibrate.h"

#include <algorithm>
#include <cmath>

#include "shade/base/error.h"

namespace shade::privacy {
namespace {

struct Tried {
  double sigma;
  Spent spent;
  double height;  // log of epsilon over the target: what is brought to zero from below
};

}  // namespace

// Epsilon is close to a power of sigma, so a secant on logarithms lands within a few tries (regula falsi with the
// Illinois weight, which keeps a bracket). Only a sigma that was tried and kept the target is ever returned.
Calibration calibrate(Accountant accountant, const Steps& steps, double target_epsilon, double delta) {
  SHADE_REQUIRE(std::isfinite(target_epsilon) && target_epsilon > 0, "target epsilon ", target_epsilon,
                " is out of range; expected above 0");
  const auto attempt = [&](double sigma) {
    auto tried = steps;
    tried.mechanism.noise_multiplier = sigma;
    const auto found = spent(accountant, {&tried, 1}, delta);
    return Tried{sigma, found, std::log(std::max(found.epsilon, 1e-9 * target_epsilon) / target_epsilon)};
  };
  const auto keeps = [&](const Tried& tried) { return tried.spent.epsilon <= target_epsilon; };

  auto enough = attempt(1), little = enough;
  while (!keeps(enough)) {
    little = enough;
    SHADE_REQUIRE(enough.sigma < kMaxNoise, "no sigma up to ", kMaxNoise, " reaches epsilon ", target_epsilon,
                  " at delta ", delta, " by ", to_string(accountant),
                  "; allow more epsilon, or fewer or smaller steps");
    enough = attempt(std::min(kMaxNoise, 2 * enough.sigma));
  }
  while (keeps(little)) {
    enough = little;
    if (little.sigma <= kMinNoise) return {enough.sigma, enough.spent};
    little = attempt(std::max(kMinNoise, little.sigma / 2));
  }
  int side = 0;  // which end moved last; the one that stays twice counts half
  while (enough.spent.epsilon < (1 - 1e-4) * target_epsilon && enough.sigma > little.sigma * (1 + 1e-9)) {
    const double low = std::log(little.sigma), high = std::log(enough.sigma);
    // Aimed slightly below the target, where the answer is to be.
    const double above = little.height + 5e-5, below = enough.height + 5e-5;
    double between = above > 0 && below < 0 ? low + (high - low) * above / (above - below) : low + (high - low) / 2;
    between = std::clamp(between, low + 0.01 * (high - low), high - 0.01 * (high - low));
    const auto tried = attempt(std::exp(between));
    if (keeps(tried)) {
      enough = tried;
      if (side == 1) little.height /= 2;
      side = 1;
    } else {
      little = tried;
      if (side == -1) enough.height /= 2;
      side = -1;
    }
  }
  return {enough.sigma, enough.spent};
}

}  // namespace shade::privacy
