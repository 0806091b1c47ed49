#include "shade/train/fixed_shapes.h"

#include <ATen/ATen.h>

#include "shade/base/error.h"

namespace shade::train {

nn::Batch FixedShapes::padded(const nn::Batch& batch) {
  const auto blank = samples_ - batch.samples();
  SHADE_REQUIRE(blank >= 0, "a micro-batch of ", batch.samples(), " samples in a private bf16 step of ", samples_,
                " at a time; cut it into smaller ones, or raise StepOptions::fixed_samples");
  std::vector<std::vector<int64_t>> shapes;
  batch.each([&](const at::Tensor& tensor) {
    shapes.push_back(tensor.sizes().slice(1).vec());
    return tensor;
  });
  if (sample_shapes_.empty()) sample_shapes_ = shapes;
  SHADE_REQUIRE(shapes == sample_shapes_,
                "the samples of a private bf16 step have another shape than those of the first one; pad texts to one "
                "length, so that no record changes how others are rounded");
  if (blank == 0) return batch;
  const auto with_blanks = [&](const at::Tensor& tensor) {
    auto shape = tensor.sizes().vec();
    shape[0] = blank;
    return at::cat({tensor, at::zeros(shape, tensor.options())});
  };
  auto out = batch.each(with_blanks);
  if (out.mask_BT.defined()) out.mask_BT.narrow(0, batch.samples(), blank).fill_(1);
  return out;
}

}  // namespace shade::train
