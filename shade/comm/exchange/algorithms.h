// The exchange algorithms. They run on a group's lane, block until done, and leave no message under way.
//
// Vocabulary: W ranks, r this rank, N elements of the full buffer, slice = comm/partition.h's part of a rank.
// All of them are direct exchanges in circular order (step k: send to r+k, receive from r-k). A ring moves the same
// (W-1)/W N bytes per rank, but takes W-1 dependent steps, and rounds a sum W-1 times in an order that differs by
// slice; a direct exchange takes one step and lets the owner add in rank order, in fp32.
#pragma once

#include "shade/comm/collective.h"
#include "shade/comm/exchange/peers.h"

namespace shade::comm::exchange {

void all_gather(Peers& peers, at::Tensor output, const at::Tensor& input);
void reduce_scatter(Peers& peers, at::Tensor output, const at::Tensor& input, Reduce reduce, Bytes segment);
void all_reduce(Peers& peers, at::Tensor tensor, Reduce reduce, Bytes segment);
void all_to_all(Peers& peers, at::Tensor output, const at::Tensor& input, std::span<const int64_t> output_splits,
                std::span<const int64_t> input_splits);
void broadcast(Peers& peers, at::Tensor tensor, int root);
void barrier(Peers& peers);

// The one that the operation asks for.
void carry_out(Peers& peers, Operation& operation, Bytes segment);

// output = reduce over `parts` in the order given, accumulated in fp32 for narrower types, rounded once.
void reduce_in_order(at::Tensor output, std::span<const at::Tensor> parts, Reduce reduce);

}  // namespace shade::comm::exchange
