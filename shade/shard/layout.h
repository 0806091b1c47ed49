// Which weights live together in which flat buffer, and which part of it each rank owns. Pure arithmetic.
#pragma once

#include <string>
#include <vector>

#include "shade/comm/partition.h"
#include "shade/nn/parameters.h"
#include "shade/shard/config.h"

namespace shade::shard {

struct Piece {
  nn::Weight* weight;
  int64_t begin;  // in the flat buffer
};

// A segment, this rank's part of it (both in the coordinates of the buffer), and where that part lies in what it owns.
struct Share {
  comm::Slice segment, owned;
  int64_t local;
};

// Weights end to end, all trainable or all frozen. Its elements are dealt to the ranks segment by segment
// (comm/partition.h), so that a segment is a contiguous part of the buffer and a collective of its own.
struct Flat {
  std::string name;  // "layers.3", "layers.3.frozen"
  bool trainable = true;
  std::vector<Piece> pieces;
  int64_t size = 0;
  std::vector<comm::Slice> segments;

  // This rank's part of a segment, in the coordinates of the buffer.
  comm::Slice owned(size_t segment, int ranks, int rank) const;
  std::vector<Share> shares(int ranks, int rank) const;  // of all segments, in order
  int64_t owned(int ranks, int rank) const;              // elements of all segments
  std::string shard_name(size_t segment) const { return name + "#" + std::to_string(segment); }
};

// What is gathered and released together: one or more units of the model.
struct UnitLayout {
  std::string name;
  std::vector<nn::UnitId> members;
  std::vector<Flat> flats;  // trainable, frozen; without the empty ones
  int64_t elements() const;
};

struct Layout {
  std::vector<UnitLayout> units;
  std::vector<int> unit_of;  // by nn::UnitId

  int64_t owned(int ranks, int rank, bool trainable) const;
};

Layout make_layout(nn::Parameters& parameters, const ShardConfig& config, at::Device device = at::kCPU);

// A contiguous run of one weight's elements: [begin, begin + size) of the weight lies at `at` of the range asked for.
struct Run {
  nn::Weight* weight;
  int64_t begin, size, at;
};
std::vector<Run> runs_in(const Flat& flat, comm::Slice range);

}  // namespace shade::shard
