#include <sodium.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "shade/base/error.h"
#include "shade/data/sampler.h"

namespace shade::data {
namespace {

// 2 atanh(s) for |s| <= 0.172, to the last bit or two.
double twice_atanh(double s) {
  const double z = s * s;
  double series = 0;
  for (int k = 10; k > 0; --k) series = (series + 1.0 / (2 * k + 1)) * z;
  return 2 * s * (1 + series);
}

// ln x for normal positive x: x = m 2^e with m in [sqrt(1/2), sqrt(2)).
double logarithm(double x) {
  constexpr auto kRootHalf = std::bit_cast<uint64_t>(0.70710678118654752);
  const auto shifted = std::bit_cast<uint64_t>(x) - kRootHalf;
  const auto exponent = static_cast<int64_t>(shifted) >> 52;
  const double m = std::bit_cast<double>((shifted & 0x000fffffffffffffu) + kRootHalf);
  return static_cast<double>(exponent) * 0.69314718055994531 + twice_atanh((m - 1) / (m + 1));
}

double log_of_complement(double q) { return q < 0.25 ? -twice_atanh(q / (2 - q)) : logarithm(1 - q); }

class Poisson final : public Sampler {
 public:
  Poisson(const SampleKey& key, const PoissonOptions& options)
      : key_(key), options_(options), log_stay_(options.rate < 1 ? log_of_complement(options.rate) : 0) {}
  ~Poisson() override { sodium_memzero(key_.data(), key_.size()); }

  std::vector<int64_t> draw(int64_t step) const override {
    KeyedBits bits(key_, KeyedBits::Purpose::poisson, static_cast<uint64_t>(step));
    std::vector<int64_t> drawn;
    for (int64_t at = 0; at < options_.records; ++at) {
      if (options_.rate < 1) {
        const double gap = std::floor(logarithm(bits.uniform()) / log_stay_);
        if (gap >= static_cast<double>(options_.records - at)) break;
        at += static_cast<int64_t>(gap);
      }
      if (at < options_.records) drawn.push_back(at);  // large differences round when they become doubles
    }
    if (options_.max_batch > 0) cut(drawn, bits);
    return drawn;
  }
  double expected_batch() const override { return options_.rate * static_cast<double>(options_.records); }
  std::string describe() const override {
    return text("poisson, rate ", options_.rate, " of ", options_.records, " ", options_.unit, "s",
                options_.max_batch > 0 ? text(", cut to ", options_.max_batch) : "");
  }

 private:
  void cut(std::vector<int64_t>& drawn, KeyedBits& bits) const {
    const auto keep = static_cast<size_t>(options_.max_batch);
    if (drawn.size() <= keep) return;
    for (size_t i = 0; i < keep; ++i) std::swap(drawn[i], drawn[i + bits.below(drawn.size() - i)]);
    drawn.resize(keep);
    std::sort(drawn.begin(), drawn.end());
  }

  SampleKey key_;
  PoissonOptions options_;
  double log_stay_;
};

}  // namespace

std::unique_ptr<Sampler> make_poisson(const SampleKey& key, const PoissonOptions& options) {
  SHADE_REQUIRE(options.records >= 0 && options.rate > 0 && options.rate <= 1 && options.max_batch >= 0,
                "poisson sampling of ", options.records, " records at rate ", options.rate, ", at most ",
                options.max_batch, "; expected a rate above 0 and at most 1, and nothing negative");
  return std::make_unique<Poisson>(key, options);
}

}  // namespace shade::data
