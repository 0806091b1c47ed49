// Squared norms of each sample's gradient of a lookup table, alone or tied to the output head.
#pragma once

#include "shade/nn/tap.h"

namespace shade::privacy {

// The sum over tokens v of |sum of g_t where ids_t = v|^2, in fp64. On accelerators in a fixed number of operators.
at::Tensor embedding_squares(const nn::EmbeddingGrad& grad);

// Neither of the two terms that a tied table gets of a sample is longer than so many clip norms (TiedRows).
inline constexpr int64_t kHeaviestTerm = 32;

// A table that is also the head gets the sum of two gradients, E and H; |E + H|^2 = |E|^2 + |H|^2 + 2 <E, H>.
//
// The head comes first in backward, in slices of rows. Of its gradient only the rows that the sample looked up can meet
// E: they are made here, [B, T, D], and multiplied with what the lookup hands over in the end.
//
//   <E, H> = sum over t of g_t . H[ids_t],    H[v] = sum over s of z_s[v] x_s     T^2 D products, T x D kept a sample
class TiedRows {
 public:
  // One slice of rows; its ids say what was looked up. With the samples' gradients where those are kept and summed: in
  // bf16 they are rounded, and E can cancel all but that rounding.
  void add(const nn::LinearGrad& head);
  void add(const nn::LinearGrad& head, const at::Tensor& gradients_BPD);

  // What the lookup adds to |H|^2, [B]: |E|^2 + 2 <E, H>. Of rows that are made here and again for the sum, each off by
  // up to gamma_T sum |x_t| (norms/rounding.h), the product is raised by what that can do. |E + H| counts as at least
  // 1 / kHeaviestTerm of the two apart, because they are added to the sum one after the other (clip/exact_sum.h).
  // Throws if other rows were looked up.
  at::Tensor lookup_squares(const nn::EmbeddingGrad& lookup, const at::Tensor& head_squares_B) const;

 private:
  template <class Rows>
  void fill(const nn::LinearGrad& head, const Rows& rows_of);  // rows_of(sample, rows of the slice) -> [rows, D]
  // The same on accelerators: a fixed number of operators for a slice, none of which depends on values. All slices of a
  // head have one input.
  void add_columns(const nn::LinearGrad& head);
  void add_rows(const nn::LinearGrad& head, const at::Tensor& gradients_BPD);
  struct Slice {
    at::Tensor inside_BT, row_BT;  // is what was looked up in the slice, and in which of its rows (any if not)
  };
  Slice slice_of(const nn::LinearGrad& head);
  at::Tensor rows(const nn::EmbeddingGrad& lookup) const;  // H[ids_t], [B, T, D]

  at::Tensor ids_BT_, rows_BTD_;
  at::Tensor spreads_B_;  // squared, over the slices whose rows were made here
  int64_t positions_ = 0;
  at::ScalarType factors_ = at::kFloat;
  // g of the head at its position s and the row that position t looked up, of the slices so far; and the head's input.
  at::Tensor z_BST_, a_BSD_;
};

}  // namespace shade::privacy
