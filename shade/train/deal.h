// How a logical batch is dealt to ranks and cut into micro-batches.
//
// Samples are sorted by the length that they are padded to, and ranks take neighbours: a micro-step takes as long as
// its slowest rank, so all of them compute one shape at a time. Every rank gets the same micro-steps, at least one,
// without asking the others; who has fewer samples gets empty ones, and runs them. Whatever the ranks and the shapes,
// every sample is somewhere exactly once, so the summed gradient is the same up to rounding.
#pragma once

#include <span>
#include <vector>

#include "shade/data/dataset.h"
#include "shade/train/micro_shapes.h"

namespace shade::train {

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

}  // namespace shade::train
