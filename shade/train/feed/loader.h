// A step's records, from the data set to this rank's micro-batches.
//
//   sampler (key, step) -> numbers of training records -> dealt to ranks -> micro-batches, read ahead
//
// Of a run that protects users, users are drawn instead, and each brings at most max_records_per_user records, drawn by
// the same key: they are the rows of one sample (nn/sample_rows.h).
//
// Sampler and dealing follow from the privacy event and the world, so that the batches which are trained on are those
// that the accountant counts, and no record is anywhere twice.
#pragma once

#include <functional>
#include <future>
#include <span>
#include <vector>

#include "shade/accounting/event.h"
#include "shade/base/units.h"
#include "shade/data/dataset.h"
#include "shade/data/sampler.h"
#include "shade/privacy/key.h"
#include "shade/train/feed/held_out.h"
#include "shade/train/feed/micro_shapes.h"

namespace shade::train {

// How a logical batch is dealt to ranks and cut into micro-batches.
//
// Samples are sorted by the length that they are padded to, and ranks take neighbours: a micro-step takes as long as
// its slowest rank, so all of them compute one shape at a time. Every rank gets the same micro-steps, at least one,
// without asking the others; who has fewer samples gets empty ones, and runs them. Whatever the ranks and the shapes,
// every sample is somewhere exactly once, so the summed gradient is the same up to rounding.
struct Sample {
  int64_t record = 0;
  SampleShape shape{};  // without padding
};

struct MicroBatch {
  std::vector<int64_t> records;
  SampleShape shape{};  // of each sample, padded; the same on all ranks
};

struct Share {
  int ranks = 1, rank = 0;
};

// This rank's micro-batches. On the grid a micro-batch has samples of one padded length. Otherwise it may hold shorter
// ones, where a micro-step more would cost more than their padding.
std::vector<MicroBatch> deal(std::vector<Sample> samples, const MicroShapes& shapes, const Share& of);

// Of records of a data set. Reads their lengths if shapes vary.
std::vector<MicroBatch> deal(const data::Dataset& data, std::span<const int64_t> records, const MicroShapes& shapes,
                             const Share& of);

class Loader {
 public:
  struct Options {
    HeldOut split;                     // which records are trained on
    privacy::PrivacyEvent event;       // of a run that is not private: its sampler, rate and sizes
    int64_t batch_size = 0;            // of shuffled batches
    MicroShapes shapes = 1;            // of micro-batches
    int64_t max_records_per_user = 0;  // of an event that protects users
    int ranks = 1, rank = 0;
    at::Device device = at::kCPU;
    std::function<privacy::NoiseKey(int64_t step)> key;  // of a step's batch; asked on a separate thread
  };
  // The data set must outlive it.
  Loader(const data::Dataset& data, Options options) : data_(&data), options_(std::move(options)) {}

  struct Loaded {
    std::vector<nn::Batch> micro_batches;  // as many on every rank
    int64_t samples = 0;                   // of all ranks
    Seconds took{0};                       // on the thread that loads
  };
  Loaded load(int64_t step) const;  // thread-safe

  // The same, ready if it was read ahead; begins to read what comes next, unless that is `end`.
  Loaded take(int64_t step, int64_t end);

  std::string describe() const;  // how batches are drawn

 private:
  std::unique_ptr<data::Sampler> sampler(const privacy::NoiseKey& key) const;
  bool draws_users() const { return options_.event.unit == privacy::PrivacyUnit::user; }
  std::vector<int64_t> records_of(int64_t user, int64_t step) const;
  std::vector<MicroBatch> dealt(std::vector<int64_t> drawn, int64_t step) const;
  nn::Batch batch_of(const MicroBatch& micro, int64_t step) const;
  nn::Batch batch_of_users(const MicroBatch& micro, int64_t step) const;

  const data::Dataset* data_;
  Options options_;
  int64_t ahead_ = -1;  // the step that next_ loads
  std::future<Loaded> next_;
};

}  // namespace shade::train
