// Sums over the positions of a sample in fp64: so wide that the norm of a sum and the sum itself are of the same
// number.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "shade/nn/tap.h"

namespace shade::privacy {

// The sum over t of x_t, or of x_t y_t: [B, T, D] -> [B, D], fp64.
at::Tensor position_sums(const at::Tensor& x_BTD, const at::Tensor& y_BTD = {});

// The positions of a batch by sample and by what they look up. Positions that look up the padding are in none.
struct TokenRun {
  int64_t sample, token;
  std::vector<int64_t> positions;
};
std::vector<TokenRun> token_runs(const nn::EmbeddingGrad& grad);  // of ids in memory of the host

// The sum of a run's rows of g, columns [begin, end), to `sums`: begin - end numbers, fp64.
template <class Number>
void add_run(const TokenRun& run, const at::Tensor& g_BTD, int64_t begin, int64_t end, double* sums);

// The same for an accelerator, in a fixed number of operators: of each sample up to T sums, the others zeros.
struct TokenSums {
  at::Tensor sums_BTD;                 // fp64
  at::Tensor tokens_BT, positions_BT;  // whose, and a position that looked it up; of the zeros any
};
TokenSums token_sums(const nn::EmbeddingGrad& grad);

}  // namespace shade::privacy
