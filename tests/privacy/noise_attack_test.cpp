// Attacks on the representation of the noise. The observer knows the sum of the others, the record's clipped gradient
// and how the noise is made, sees the released sum, and says whether the record is in it.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numbers>
#include <random>
#include <vector>

#include "shade/privacy/noise.h"

namespace shade::privacy {
namespace {

constexpr int64_t kSize = 1 << 18;  // elements of a released sum
constexpr int64_t kLag = 128;       // a Box-Muller pair is i and i + 128 of 256
constexpr int kWorlds = 40;         // every other one with the record

struct World {
  at::Tensor others, gradient;
  bool with;
  at::Tensor released = {};
};

using Mechanism = std::function<void(const at::Tensor& sum, int world)>;
using Observer = std::function<double(const World&)>;  // above 0: the record is in, below: it is not, 0: can't say

struct Verdicts {
  int right = 0, wrong = 0;
};

Verdicts attack(const Mechanism& mechanism, const Observer& observer, bool others = true, int worlds = kWorlds) {
  at::manual_seed(1);
  const auto sum = others ? at::randn({kSize}) : at::zeros({kSize}), record = at::randn({kSize});
  Verdicts out;
  for (int w = 0; w < worlds; ++w) {
    World world{.others = sum, .gradient = record / record.norm(), .with = w % 2 == 1};
    world.released = world.with ? world.others + world.gradient : world.others.clone();
    mechanism(world.released, w);
    const double said = observer(world);
    if (said != 0) ++((said > 0) == world.with ? out.right : out.wrong);
  }
  return out;
}

// Radii are sqrt(-2 ln((n + 1/2) 2^-bits)) with an integer n. How near to integers are those of the largest pairs?
double on_circles(const at::Tensor& noise, int bits) {
  const auto* z = noise.data_ptr<double>();
  std::vector<double> squares;
  for (int64_t i = 0; i < kSize; ++i)
    if (i % (2 * kLag) < kLag) squares.push_back(z[i] * z[i] + z[i + kLag] * z[i + kLag]);
  constexpr int kLargest = 16;
  std::nth_element(squares.begin(), squares.begin() + kLargest, squares.end(), std::greater<>());
  double sum = 0;
  for (int i = 0; i < kLargest; ++i) {
    const long double n =
        std::exp(-static_cast<long double>(squares[static_cast<size_t>(i)]) / 2) * std::exp2l(bits) - 0.5L;
    sum += std::cos(2 * std::numbers::pi * static_cast<double>(n - std::floor(n)));
  }
  return sum / kLargest;
}

Observer circles(int bits) {
  return [bits](const World& w) {
    const auto without = w.released.to(at::kDouble) - w.others.to(at::kDouble);
    return on_circles(without - w.gradient.to(at::kDouble), bits) - on_circles(without, bits);
  };
}

// With the others' sum at 0 a released number is noise alone, or the rounded sum of noise and gradient. Where both
// nearly cancel, only the former has bits below the gradient's last.
double low_bits(const World& w) {
  const auto *y = w.released.data_ptr<float>(), *g = w.gradient.data_ptr<float>();
  for (int64_t i = 0; i < kSize; ++i) {
    const float last = std::ldexp(1.0f, std::ilogb(g[i]) - 24);
    if (std::fabs(y[i]) < std::fabs(g[i]) / 4 && std::fmod(y[i], last) != 0) return -1;
  }
  return 1;
}

void noise_of_shade(const at::Tensor& sum, int world) {
  const auto wide = sum.to(at::kDouble);
  Noise(seeded_key(static_cast<uint64_t>(world) + 1)).add(wide, 1, 0, 0, 0);
  sum.copy_(wide);
}

// What this guards against: 31 bits for a radius, added in fp32, rounded to `spacing` (0: not at all).
Mechanism narrow(double spacing) {
  return [spacing](const at::Tensor& sum, int world) {
    std::mt19937 random(static_cast<uint32_t>(world));
    auto* y = sum.data_ptr<float>();
    for (int64_t i = 0; i < kSize; ++i) {
      if (i % (2 * kLag) >= kLag) continue;
      const double radius = std::sqrt(-2 * std::log((static_cast<double>(random() >> 1) + 0.5) * 0x1p-31));
      const double angle = static_cast<double>(random()) * 0x1p-31 * std::numbers::pi;
      y[i] += static_cast<float>(radius * std::cos(angle));
      y[i + kLag] += static_cast<float>(radius * std::sin(angle));
      for (const int64_t at : {i, i + kLag})
        if (spacing > 0) y[at] = static_cast<float>(std::nearbyint(y[at] / spacing) * spacing);
    }
  };
}

// A guess is right in half of the worlds: in 11 to 29 of 40, but for one time in 450.
void expect_guesses(const Verdicts& verdicts) {
  EXPECT_LT(std::abs(verdicts.right - verdicts.wrong), 20)
      << verdicts.right << " right, " << verdicts.wrong << " wrong";
}

TEST(NoiseAttack, CirclesDecideNothing) {
  for (const int bits : {31, 64}) {
    SCOPED_TRACE(bits);
    expect_guesses(attack(noise_of_shade, circles(bits)));
  }
}

TEST(NoiseAttack, LowBitsDecideNothing) { expect_guesses(attack(noise_of_shade, low_bits, false)); }

TEST(NoiseAttack, BothCanSucceed) {
  EXPECT_EQ(attack(narrow(0), circles(31), true, 10).right, 10);
  EXPECT_EQ(attack(narrow(0), low_bits, false, 10).right, 10);
  EXPECT_EQ(attack(narrow(1e-6), circles(31), true, 10).right, 10) << "on sums rounded to a finer grid";
}

}  // namespace
}  // namespace shade::privacy
