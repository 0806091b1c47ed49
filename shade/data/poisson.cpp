#include <sodium.h>

#include <algorithm>
#include <optional>

#include "shade/base/error.h"
#include "shade/data/gap.h"
#include "shade/data/sampler.h"

namespace shade::data {
namespace {

class Poisson final : public Sampler {
 public:
  Poisson(const SampleKey& key, const PoissonOptions& options)
      : key_(key), options_(options), gap_(options.rate < 1 ? std::optional<Gap>(options.rate) : std::nullopt) {}
  ~Poisson() override { sodium_memzero(key_.data(), key_.size()); }

  std::vector<int64_t> draw(int64_t step) const override {
    KeyedBits bits(key_, KeyedBits::Purpose::poisson, static_cast<uint64_t>(step));
    std::vector<int64_t> drawn;
    for (int64_t at = 0; at < options_.records; ++at) {
      if (gap_) at += gap_->draw(bits, options_.records - at);
      if (at < options_.records) drawn.push_back(at);
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
  std::optional<Gap> gap_;  // none at rate 1
};

}  // namespace

std::unique_ptr<Sampler> make_poisson(const SampleKey& key, const PoissonOptions& options) {
  SHADE_REQUIRE(options.records >= 0 && options.rate > 0 && options.rate <= 1 && options.max_batch >= 0,
                "poisson sampling of ", options.records, " records at rate ", options.rate, ", at most ",
                options.max_batch, "; expected a rate above 0 and at most 1, and nothing negative");
  return std::make_unique<Poisson>(key, options);
}

}  // namespace shade::data
