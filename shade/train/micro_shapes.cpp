#include "shade/train/micro_shapes.h"

#include <algorithm>
#include <bit>

namespace shade::train {
namespace {

constexpr int64_t kShortest = 16;  // of the grid
constexpr int64_t kMultiple = 8;   // of lengths beside the grid: what vector units like

// Powers of two and the middle between them: 16, 24, 32, 48, 64, ...
int64_t next_on_grid(int64_t length) {
  return std::has_single_bit(static_cast<uint64_t>(length)) ? length / 2 * 3 : length / 3 * 4;
}

}  // namespace

int64_t MicroShapes::count() const {
  if (!vary()) return 1;
  int64_t rows = 1, lengths = 1;
  for (int64_t r = 1; r < options_.full.rows; r *= 2) ++rows;
  for (auto length = kShortest; length < options_.full.length; length = next_on_grid(length)) ++lengths;
  return rows * lengths;
}

SampleShape MicroShapes::padded(const SampleShape& shape) const {
  if (!vary()) return options_.full;
  int64_t rows = 1;
  while (rows < shape.rows) rows *= 2;
  int64_t length = (shape.length + kMultiple - 1) / kMultiple * kMultiple;
  if (grid())
    for (length = kShortest; length < shape.length;) length = next_on_grid(length);
  return {std::min(rows, options_.full.rows), std::min(length, options_.full.length)};
}

int64_t MicroShapes::samples(const SampleShape& padded) const {
  const auto& [samples, full, padding, on_grid, most] = options_;
  if (!vary() || samples == 0) return samples;
  return std::clamp(samples * full.positions() / padded.positions(), samples, std::max(samples, most));
}

MicroShapes MicroShapes::at_most(int64_t samples) const {
  auto options = options_;
  options.samples = std::min(options.samples, samples);
  options.most = std::min(options.most, samples);
  return MicroShapes(options);
}

std::string MicroShapes::describe() const {
  const auto& [samples, full, padding, on_grid, most_of] = options_;
  const auto count = text(samples, samples == 1 ? " sample" : " samples");
  if (full.length == 0) return count + " at a time";
  const auto of_full =
      text(count, " of ", full.rows > 1 ? text(full.rows, " records of ") : "", full.length, " tokens at a time");
  if (!vary()) return of_full;
  return text(of_full, most() > samples ? text(" or up to ", most(), " shorter ones") : "", ", padded to ",
              grid() ? "the next of 16, 24, 32, 48, 64, ..." : "the longest of them");
}

}  // namespace shade::train
