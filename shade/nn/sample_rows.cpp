#include "shade/nn/sample_rows.h"

#include <ATen/ATen.h>

namespace shade::nn {

Batch in_samples(const Batch& records, std::span<const int64_t> counts, int64_t rows) {
  SHADE_REQUIRE(!records.documents_BT.defined(), "windows of packed texts belong to no user; pack by records");
  const auto samples = std::ssize(counts);
  std::vector<int64_t> places;
  auto present_B = at::zeros({samples * rows}, at::kLong);
  for (int64_t sample = 0; sample < samples; ++sample) {
    const auto count = counts[static_cast<size_t>(sample)];
    SHADE_REQUIRE(count >= 0 && count <= rows, "a sample of ", count, " records in ", rows, " rows");
    for (int64_t row = 0; row < count; ++row) places.push_back(sample * rows + row);
    present_B.narrow(0, sample * rows, count).fill_(1);
  }
  SHADE_REQUIRE(std::ssize(places) == records.row_count(), records.row_count(), " records for samples that have ",
                places.size());
  const auto place = at::tensor(places, at::kLong);
  auto out = records.each([&](const at::Tensor& tensor) {
    auto shape = tensor.sizes().vec();
    shape[0] = samples * rows;
    return at::zeros(shape, tensor.options()).index_copy_(0, place, tensor);
  });
  out.rows_per_sample = rows;
  out.present_B = present_B;
  out.records.clear();
  return out;
}

at::Tensor sample_losses(const at::Tensor& losses_B, const Batch& batch) {
  SHADE_REQUIRE(losses_B.dim() == 1 && losses_B.size(0) == batch.row_count(), "the model gave losses of shape ",
                losses_B.sizes(), " for a batch of ", batch.row_count(),
                " rows; expected one loss per row, [B], without a mean over them");
  if (batch.rows_per_sample == 1 && !batch.present_B.defined()) return losses_B;
  const std::vector<int64_t> shape{batch.samples(), batch.rows_per_sample};
  if (!batch.present_B.defined()) return losses_B.view(shape).mean(1);
  const auto present_SR = batch.present_B.view(shape);
  const auto counts_S = present_SR.sum(1).clamp_min_(1).to(losses_B.scalar_type());
  return losses_B.view(shape).masked_fill(present_SR == 0, 0).sum(1) / counts_S;
}

}  // namespace shade::nn
