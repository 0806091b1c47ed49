// Samples of several rows: the records of a user are one sample (nn::Batch::rows_per_sample), whose gradient is clipped
// as a whole.
//
//   records -> in_samples()   rows side by side, blank ones where a user has fewer records
//   model.losses()            a loss per row
//   sample_losses()           a loss per sample: the mean of its records
//   backward, by_sample()     the positions of a sample's rows are its positions (nn/tap.h)
#pragma once

#include <span>

#include "shade/nn/batch.h"

namespace shade::nn {

// Samples of `rows` rows each from a batch of records, a record per row: the first counts[0] are the first sample's,
// and so on. Blank rows are zeros. Throws UsageError if a sample has more records than rows, or if the records are
// windows of packed texts.
Batch in_samples(const Batch& records, std::span<const int64_t> counts, int64_t rows);

// A batch's losses by sample, from those by row: [B] -> [samples], the mean over the rows of a sample that are present,
// 0 if none is. A blank row's loss is left out whatever it is. Throws UsageError if there isn't one loss per row.
at::Tensor sample_losses(const at::Tensor& losses_B, const Batch& batch);

}  // namespace shade::nn
