// What a micro-batch looks like: how far its samples are padded, and how many of them there are.
//
//   max_length   every sample has the full length.
//   longest      samples of similar length are computed together (train/feed/loader.h) and padded to the longest of
//                them; the shorter they are the more there are, up to the positions of a micro-batch of full ones.
//
// In a private run `longest` pads a sample to the next length of a grid (16, 24, 32, 48, 64, ...): its length decides
// that alone, and no other record changes the shapes, and so the rounding, that it is computed with. A sample of
// several records (a user) gets blank rows up to the next power of two, by its own number of records. All of this
// follows from options, so it is public; which samples were drawn is not.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "shade/base/names.h"
#include "shade/nn/batch.h"

namespace shade::train {

enum class Padding { longest, max_length };
inline std::span<const Name<Padding>> names_of(Padding) {
  static constexpr Name<Padding> kNames[] = {{"longest", Padding::longest}, {"max_length", Padding::max_length}};
  return kNames;
}

// Of one sample. Length 0: the only one that the data has.
struct SampleShape {
  int64_t rows = 1, length = 0;

  int64_t positions() const { return rows * length; }
  auto operator<=>(const SampleShape&) const = default;
};

class MicroShapes {
 public:
  struct Options {
    int64_t samples = 0;  // at a time on a rank, of the full shape; 0: as they come
    SampleShape full{};   // length 0: all samples have one shape
    Padding padding = Padding::longest;
    bool grid = false;                                   // lengths are those of the grid
    int64_t most = std::numeric_limits<int64_t>::max();  // samples at a time, of any shape smaller than the full one
  };
  explicit MicroShapes(const Options& options) : options_(options) {}
  MicroShapes(int64_t samples = 0) : options_{.samples = samples} {}  // of one shape

  bool vary() const { return options_.full.length > 0 && options_.padding == Padding::longest; }
  bool grid() const { return options_.grid; }
  const SampleShape& full() const { return options_.full; }
  int64_t count() const;                               // of shapes that samples are padded to
  SampleShape padded(const SampleShape& shape) const;  // what a sample of these rows and positions is padded to
  int64_t samples(const SampleShape& padded) const;    // at a time; 0: as they come
  int64_t most() const { return samples(padded({1, 1})); }
  MicroShapes at_most(int64_t samples) const;  // the same lengths, and no more samples than that at a time

  std::string describe() const;  // "4 samples of 512 positions at a time, up to 128 of shorter ones"

 private:
  Options options_;
};

// Micro-batches of known shapes, whatever records were drawn.
//
// A kernel that is chosen by the size of its input rounds differently from another one, in bf16 by up to 2^-8. If the
// number of samples followed the drawn batch, one additional record would change how all others are rounded, and the
// sum would move by more than that record's clipped gradient. So private steps compute every micro-batch at one size
// or, if samples differ in length, at one size for each length of the grid (train/feed/micro_shapes.h).

// A batch of the same shapes that holds nothing: zeros, mask ones.
nn::Batch blank(const nn::Batch& batch);

class FixedShapes {
 public:
  explicit FixedShapes(const MicroShapes& shapes);  // that vary on the grid, or not at all

  // With blank samples at the end (zeros, mask ones) up to the number for their length; an empty batch is all blank.
  // Throws UsageError if the batch has more samples, a length that is not on the grid, or fields of another shape than
  // the first batch of that length had.
  nn::Batch padded(const nn::Batch& batch);

 private:
  SampleShape shape_of(const nn::Batch& batch) const;

  MicroShapes shapes_;
  std::map<SampleShape, std::vector<std::vector<int64_t>>> fields_;  // of the first batch of each length
};

}  // namespace shade::train
