// Losses, one number per row of a batch: not averaged over samples.
#pragma once

#include "shade/nn/parameters.h"

namespace shade::nn {

// Cross entropy of logits [B, C] and labels [B].
at::Tensor class_losses(const at::Tensor& logits_BC, const at::Tensor& labels_B);

// Mean squared difference over everything but the sample.
at::Tensor squared_losses(const at::Tensor& predicted, const at::Tensor& wanted);

// The causal language-model loss together with the head, so that the logits [B, T, V] never exist.
//
// Forward passes over the vocabulary in slices, keeping a running log-sum-exp; backward makes each slice of logits anew
// and hands its rows of the weight to the tap. Slices of the vocabulary, not of the text: squared norms of row slices
// add up exactly, those of text slices don't.
//
// The input gradient is summed over the slices in fp32 and rounded once, so its error doesn't depend on their number.
//
//   FLOPs 8 B T V D (2 forward, 2 again, 4 backward)    memory: one slice of logits, B T D in fp32 (input gradient)
struct LmLossOptions {
  int64_t ignore_index = -100;              // label of a position that doesn't count
  bool mean = true;                         // over a sample's tokens that count; false: their sum
  int64_t slice_bytes = int64_t{64} << 20;  // of fp32 logits; on accelerators at least nn::largest_block()
  at::Tensor looked_up_BT{};                // `weight` is a table too (tied): what this batch looked up in it
};
// labels_BT[b, t] is what position t must predict (already shifted). `weight` is [V, D].
at::Tensor lm_losses(const at::Tensor& h_BTD, const Weight& weight, const Wiring& wiring, const at::Tensor& labels_BT,
                     const LmLossOptions& options);

// labels as Hugging Face gives them (position t carries token t) -> what each position must predict.
at::Tensor shifted_labels(const at::Tensor& labels_BT, int64_t ignore_index = -100);

// How many positions of each sample have something to predict: [B].
at::Tensor counted_tokens(const at::Tensor& labels_BT, int64_t ignore_index = -100);

// The hidden state of each sample's last position that is not padding: h [B, T, D], mask [B, T] -> [B, D].
at::Tensor last_position(const at::Tensor& h_BTD, const at::Tensor& mask_BT);

}  // namespace shade::nn
