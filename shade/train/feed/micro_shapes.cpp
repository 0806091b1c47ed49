#include "shade/train/feed/micro_shapes.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>

#include "shade/base/error.h"

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

FixedShapes::FixedShapes(const MicroShapes& shapes) : shapes_(shapes) {
  SHADE_REQUIRE(!shapes.vary() || shapes.grid(),
                "lengths of a private step that follow the longest sample of a micro-batch; set "
                "MicroShapes::Options::grid, so that no record changes how others are rounded");
}

nn::Batch blank(const nn::Batch& batch) {
  auto out = batch.each([](const at::Tensor& tensor) { return at::zeros_like(tensor); });
  if (out.mask_BT.defined()) out.mask_BT.fill_(1);
  return out;
}

SampleShape FixedShapes::shape_of(const nn::Batch& batch) const {
  if (!shapes_.vary()) return {};
  const SampleShape shape{batch.rows_per_sample, batch.ids_BT.defined() ? batch.ids_BT.size(1) : 0};
  SHADE_REQUIRE(shapes_.padded(shape) == shape, "samples of ", shape.rows, " x ", shape.length,
                " tokens in a private step; pad them to the next shape of its grid, ", shapes_.padded(shape).rows,
                " x ", shapes_.padded(shape).length);
  return shape;
}

nn::Batch FixedShapes::padded(const nn::Batch& batch) {
  const auto shape = shape_of(batch);
  const auto samples = shapes_.samples(shape), blank = samples - batch.samples();
  SHADE_REQUIRE(blank >= 0, "a micro-batch of ", batch.samples(), " samples in a private step of ", samples,
                " at a time; cut it into smaller ones, or raise StepOptions::micro_shapes");
  std::vector<std::vector<int64_t>> fields{{batch.rows_per_sample}};
  batch.each([&](const at::Tensor& tensor) {
    fields.push_back(tensor.sizes().slice(1).vec());
    return tensor;
  });
  const auto first = fields_.try_emplace(shape, fields).first;
  SHADE_REQUIRE(fields == first->second,
                "the samples of a private step have another shape than those of the first one; pad texts to one "
                "length, so that no record changes how others are rounded");
  if (blank == 0) return batch;
  const auto with_blanks = [&](const at::Tensor& tensor) {
    auto sizes = tensor.sizes().vec();
    sizes[0] = blank * batch.rows_per_sample;
    return at::cat({tensor, at::zeros(sizes, tensor.options())});
  };
  auto out = batch.each(with_blanks);
  if (out.mask_BT.defined()) out.mask_BT.slice(0, batch.row_count()).fill_(1);
  return out;
}

}  // namespace shade::train
