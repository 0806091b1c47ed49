#include "shade/train/fixed_shapes.h"

#include <ATen/ATen.h>

#include "shade/base/error.h"

namespace shade::train {

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
    auto shape = tensor.sizes().vec();
    shape[0] = blank * batch.rows_per_sample;
    return at::cat({tensor, at::zeros(shape, tensor.options())});
  };
  auto out = batch.each(with_blanks);
  if (out.mask_BT.defined()) out.mask_BT.slice(0, batch.row_count()).fill_(1);
  return out;
}

}  // namespace shade::train
