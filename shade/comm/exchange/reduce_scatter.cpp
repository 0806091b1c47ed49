// reduce_scatter: every rank sends every other the slice that one owns; the owner adds.
//
//   steps 1    sent per rank (W-1)/W N    extra memory 2 (W-1) segments (+ 1 in fp32 for bf16)
//
// The owned slice is received in segments through two sets of buffers: while one segment of all peers is being added
// in rank order, the next one is arriving.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "shade/comm/exchange/algorithms.h"
#include "shade/comm/partition.h"

namespace shade::comm::exchange {

void reduce_scatter(Peers& peers, at::Tensor output, const at::Tensor& input, Reduce reduce, Bytes segment) {
  const int ranks = peers.size();
  const auto item = static_cast<int64_t>(input.element_size());
  const int64_t step = std::max<int64_t>(1, segment.count / item);
  const auto mine = slice_of(input.numel(), ranks, peers.rank());

  std::vector<Transfer> sends;
  for (int k = 1; k < ranks; ++k) {
    const int to = peers.after(k);
    const auto slice = slice_of(input.numel(), ranks, to);
    for (int64_t at = 0; at < slice.size; at += step)
      sends.push_back(peers.send(input.narrow(0, slice.begin + at, std::min(step, slice.size - at)), to));
  }

  struct Arrival {
    int64_t at = 0, length = 0;
    std::vector<at::Tensor> parts;  // by rank; ours is a view of the input
    std::vector<Transfer> transfers;
  };
  const auto room = at::empty(
      {std::min<int64_t>(2, (mine.size + step - 1) / step), ranks - 1, std::min(step, mine.size)}, input.options());
  const auto post = [&](int64_t at, int64_t buffer) {
    Arrival arrival{at, std::min(step, mine.size - at), std::vector<at::Tensor>(static_cast<size_t>(ranks)), {}};
    arrival.parts[static_cast<size_t>(peers.rank())] = input.narrow(0, mine.begin + at, arrival.length);
    for (int k = 1; k < ranks; ++k) {
      const int from = peers.before(k);
      auto part = room[buffer][k - 1].narrow(0, 0, arrival.length);
      arrival.transfers.push_back(peers.recv(part, from));
      arrival.parts[static_cast<size_t>(from)] = std::move(part);
    }
    return arrival;
  };

  int64_t buffer = 0;
  Arrival next = mine.size > 0 ? post(0, 0) : Arrival{};
  for (int64_t at = 0; at < mine.size; at += step) {
    Arrival arrived = std::move(next);
    buffer = 1 - buffer;
    if (at + step < mine.size) next = post(at + step, buffer);
    peers.wait(arrived.transfers);
    reduce_in_order(output.narrow(0, arrived.at, arrived.length), arrived.parts, reduce);
  }
  peers.wait(sends);
}

}  // namespace shade::comm::exchange
