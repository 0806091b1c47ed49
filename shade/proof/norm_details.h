// Lines for `shade verify --verbose`: the norms of each sample, layer by layer and in all, beside their definition.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shade/comm/group.h"
#include "shade/nn/parameters.h"
#include "shade/privacy/clip/method.h"

namespace shade::proof {

// Sample `in_batch` of a recorded micro-batch.
struct NormDetails {
  int rank;
  size_t sample;  // of this rank, over its micro-batches
  const privacy::RecordedNorms& recorded;
  int64_t in_batch;
  const std::map<nn::WeightId, std::vector<double>>& wanted;  // squared, by sample
};

// A line per trainable weight, and one for the sample: its norm before any reduction over ranks (the sum over layers on
// its own rank), after it (what it is clipped by), and by definition.
void add_lines(std::vector<std::string>& to, const nn::Parameters& parameters, const NormDetails& details);

// The lines of all ranks, by rank, on every rank: one process prints them, so none is cut into another. Collective.
std::vector<std::string> gathered_lines(const comm::Group& group, const std::vector<std::string>& mine);

}  // namespace shade::proof
