#include "shade/data/sampler.h"

#include <sodium.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "shade/base/error.h"
#include "shade/data/gap.h"

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

namespace {

// A permutation of [0, size): place -> record. A Feistel network permutes [0, 4^half) with 4^half < 4 size; places that
// land outside are sent on until they land inside, which keeps it a permutation.
class Permutation {
 public:
  Permutation(const SampleKey& key, uint64_t epoch, uint64_t size)
      : size_(size), half_((static_cast<int>(std::bit_width(std::max<uint64_t>(size, 2) - 1)) + 1) / 2) {
    KeyedBits bits(key, KeyedBits::Purpose::shuffle, epoch);
    for (auto& word : key_) word = bits.next();
  }

  uint64_t operator()(uint64_t place) const {
    do place = network(place);
    while (place >= size_);
    return place;
  }

 private:
  uint64_t network(uint64_t place) const {
    const uint64_t mask = (uint64_t{1} << half_) - 1;
    uint64_t left = place >> half_, right = place & mask;
    for (uint64_t round = 0; round < 8; ++round) {
      const uint64_t in[2] = {round, right};
      uint64_t out = 0;
      crypto_shorthash(reinterpret_cast<uint8_t*>(&out), reinterpret_cast<const uint8_t*>(in), sizeof in,
                       reinterpret_cast<const uint8_t*>(key_));
      left = std::exchange(right, left ^ (out & mask));
    }
    return (left << half_) | right;
  }

  uint64_t size_;
  int half_;  // bits
  uint64_t key_[2] = {};
};

class Shuffled final : public Sampler {
 public:
  Shuffled(const SampleKey& key, const ShuffleOptions& options) : key_(key), options_(options) {}
  ~Shuffled() override { sodium_memzero(key_.data(), key_.size()); }

  std::vector<int64_t> draw(int64_t step) const override {
    const auto steps = (options_.records + options_.batch - 1) / options_.batch;  // of an epoch
    const Permutation order(key_, static_cast<uint64_t>(step / steps), static_cast<uint64_t>(options_.records));
    const auto begin = step % steps * options_.batch, end = std::min(begin + options_.batch, options_.records);
    std::vector<int64_t> drawn;
    for (auto place = begin; place < end; ++place)
      drawn.push_back(static_cast<int64_t>(order(static_cast<uint64_t>(place))));
    return drawn;
  }
  double expected_batch() const override { return static_cast<double>(options_.batch); }
  std::string describe() const override {
    return text("shuffled epochs of ", options_.records, " ", options_.unit, "s, ", options_.batch, " at a time");
  }

 private:
  SampleKey key_;
  ShuffleOptions options_;
};

}  // namespace

std::unique_ptr<Sampler> make_shuffled(const SampleKey& key, const ShuffleOptions& options) {
  SHADE_REQUIRE(options.records > 0 && options.batch > 0, "a shuffle of ", options.records, " records into batches of ",
                options.batch, "; expected at least one of each");
  return std::make_unique<Shuffled>(key, options);
}

}  // namespace shade::data
