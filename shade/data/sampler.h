// Which records a step works on: a function of (key, step). The same on every rank, for every world size and after a
// restart; a rank then takes its part (train/feed/loader.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shade/data/keyed_bits.h"

namespace shade::data {

// Const methods are thread-safe.
class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual std::vector<int64_t> draw(int64_t step) const = 0;  // the whole logical batch; it may be empty
  virtual double expected_batch() const = 0;
  virtual std::string describe() const = 0;
};

// Every record joins on its own with probability `rate`, exactly; ascending. The gaps between drawn records are
// geometric (gap.h), so a draw costs what it returns and not what there is.
//
// With `max_batch`, of a larger draw a uniformly random part of that size stays (truncated Poisson): the order in which
// records are cut is drawn without looking at them, as the accountant assumes.
struct PoissonOptions {
  int64_t records = 0;
  double rate = 0;
  int64_t max_batch = 0;  // 0: not truncated
  std::string unit = "record";
};
std::unique_ptr<Sampler> make_poisson(const SampleKey& key, const PoissonOptions& options);

// The records in a random order, another in each epoch, cut into batches of one size; the last batch of an epoch is
// smaller if the records don't divide evenly. The order is a permutation that can be asked at any place (a Feistel
// network of SipHash, walked until inside), so nothing is kept of an epoch. Batches depend on each other: no accountant
// supports this sampler.
struct ShuffleOptions {
  int64_t records = 0;
  int64_t batch = 0;
  std::string unit = "record";
};
std::unique_ptr<Sampler> make_shuffled(const SampleKey& key, const ShuffleOptions& options);

}  // namespace shade::data
