// all_gather: every rank sends its slice to every other, straight into its place.
//
//   steps 1    sent per rank (W-1)/W N    extra memory none    copies: own slice, while the wire is busy

#include "shade/comm/exchange/algorithms.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "shade/comm/partition.h"

namespace shade::comm::exchange {

void all_gather(Peers& peers, at::Tensor output, const at::Tensor& input) {
  const auto place = [&](int rank) {
    const auto slice = slice_of(output.numel(), peers.size(), rank);
    return output.narrow(0, slice.begin, slice.size);
  };
  std::vector<Transfer> transfers;
  for (int k = 1; k < peers.size(); ++k) {
    transfers.push_back(peers.recv(place(peers.before(k)), peers.before(k)));
    transfers.push_back(peers.send(input, peers.after(k)));
  }
  if (auto own = place(peers.rank()); own.data_ptr() != input.data_ptr()) own.copy_(input);
  peers.wait(transfers);
}

namespace {

void combine(at::Tensor into, const at::Tensor& a, const at::Tensor& b, Reduce reduce) {
  switch (reduce) {
    case Reduce::sum: at::add_out(into, a, b); return;
    case Reduce::max: at::maximum_out(into, a, b); return;
    case Reduce::min: at::minimum_out(into, a, b); return;
  }
}

bool narrow_float(at::ScalarType type) { return type == at::kBFloat16 || type == at::kHalf; }

}  // namespace

void reduce_in_order(at::Tensor output, std::span<const at::Tensor> parts, Reduce reduce) {
  if (parts.size() == 1) {
    output.copy_(parts[0]);
    return;
  }
  const auto type = parts[0].scalar_type();
  const bool narrow = narrow_float(type) && output.scalar_type() == type;
  // In place, the output may be one of the parts; it must not be overwritten before its turn.
  const bool overwrites = std::any_of(parts.begin() + 2, parts.end(), [&](const at::Tensor& part) {
    return part.is_alias_of(output) && part.data_ptr() == output.data_ptr();
  });
  const auto sum = narrow || overwrites
                       ? at::empty(output.sizes(), output.options().dtype(narrow ? at::kFloat : output.scalar_type()))
                       : output;
  const auto wide = [&](const at::Tensor& part) { return part.to(sum.scalar_type()); };
  combine(sum, wide(parts[0]), wide(parts[1]), reduce);
  for (const auto& part : parts.subspan(2)) combine(sum, sum, wide(part), reduce);
  if (!sum.is_same(output)) output.copy_(sum);
}

// reduce_scatter: every rank sends every other the slice that one owns; the owner adds.
//
//   steps 1    sent per rank (W-1)/W N    extra memory 2 (W-1) segments (+ 1 in fp32 for bf16)
//
// The owned slice is received in segments through two sets of buffers: while one segment of all peers is being added
// in rank order, the next one is arriving.

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

// all_reduce, in place.
//
//   small (<= 64 KiB)  each rank sends everything to every other, and adds in rank order
//                      steps 1    sent per rank (W-1) N            extra memory (W-1) N
//   large              reduce_scatter into the own slice, then all_gather
//                      steps 2    sent per rank 2 (W-1)/W N        extra memory that of reduce_scatter

namespace {

constexpr Bytes kDirect = KiB(64);

void direct(Peers& peers, at::Tensor tensor, Reduce reduce) {
  std::vector<at::Tensor> parts(static_cast<size_t>(peers.size()), tensor);
  std::vector<Transfer> transfers;
  for (int k = 1; k < peers.size(); ++k) {
    auto& part = parts[static_cast<size_t>(peers.before(k))];
    part = at::empty_like(tensor);
    transfers.push_back(peers.recv(part, peers.before(k)));
    transfers.push_back(peers.send(tensor, peers.after(k)));
  }
  peers.wait(transfers);
  reduce_in_order(tensor, parts, reduce);
}

}  // namespace

void all_reduce(Peers& peers, at::Tensor tensor, Reduce reduce, Bytes segment) {
  if (peers.size() == 1) return;
  if (static_cast<int64_t>(tensor.nbytes()) <= kDirect.count) return direct(peers, tensor, reduce);
  const auto mine = slice_of(tensor.numel(), peers.size(), peers.rank());
  const auto own = tensor.narrow(0, mine.begin, mine.size);  // sent to no rank in the first step: free to be written
  reduce_scatter(peers, own, tensor, reduce, segment);
  all_gather(peers, tensor, own);
}

// all_to_all: rank r's part j goes to rank j.
//
//   steps 1    sent per rank: all but the own part    extra memory none

void all_to_all(Peers& peers, at::Tensor output, const at::Tensor& input, std::span<const int64_t> output_splits,
                std::span<const int64_t> input_splits) {
  const auto part = [](const at::Tensor& whole, std::span<const int64_t> splits, int rank) {
    const auto index = static_cast<size_t>(rank);
    const auto begin = std::accumulate(splits.begin(), splits.begin() + rank, int64_t{0});
    return whole.narrow(0, begin, splits[index]);
  };
  std::vector<Transfer> transfers;
  for (int k = 1; k < peers.size(); ++k) {
    transfers.push_back(peers.recv(part(output, output_splits, peers.before(k)), peers.before(k)));
    transfers.push_back(peers.send(part(input, input_splits, peers.after(k)), peers.after(k)));
  }
  part(output, output_splits, peers.rank()).copy_(part(input, input_splits, peers.rank()));
  peers.wait(transfers);
}

// broadcast from `root`, in place.
//
//   small (<= 256 KiB) or W = 2   binomial tree             steps ceil(log2 W)   sent by the root ceil(log2 W) N
//   large                         root deals out slices, then all_gather
//                                                           steps 2              sent by the root 2 (W-1)/W N

namespace {

constexpr Bytes kTree = KiB(256);

void tree(Peers& peers, const at::Tensor& tensor, int root) {
  const int ranks = peers.size();
  const int place = (peers.rank() - root + ranks) % ranks;  // the root is 0; place p receives from p minus its top bit
  std::vector<Transfer> sends;
  int bit = 1;
  for (; bit < ranks; bit <<= 1) {
    if (place >= bit && place < 2 * bit) {
      auto transfer = peers.recv(tensor, (place - bit + root) % ranks);
      peers.wait(transfer);
    } else if (place < bit && place + bit < ranks) {
      sends.push_back(peers.send(tensor, (place + bit + root) % ranks));
    }
  }
  peers.wait(sends);
}

void deal(Peers& peers, const at::Tensor& tensor, int root) {
  const auto slice = [&](int rank) {
    const auto part = slice_of(tensor.numel(), peers.size(), rank);
    return tensor.narrow(0, part.begin, part.size);
  };
  std::vector<Transfer> transfers;
  if (peers.rank() == root) {
    for (int k = 1; k < peers.size(); ++k) transfers.push_back(peers.send(slice(peers.after(k)), peers.after(k)));
  } else {
    transfers.push_back(peers.recv(slice(peers.rank()), root));
  }
  peers.wait(transfers);
  all_gather(peers, tensor, slice(peers.rank()));
}

}  // namespace

void broadcast(Peers& peers, at::Tensor tensor, int root) {
  if (peers.size() == 1) return;
  if (peers.size() == 2 || static_cast<int64_t>(tensor.nbytes()) <= kTree.count) return tree(peers, tensor, root);
  deal(peers, tensor, root);
}

// barrier: dissemination. After round k a rank knows of 2^(k+1) ranks.
//
//   steps ceil(log2 W)    sent per rank ceil(log2 W) bytes

void barrier(Peers& peers) {
  const auto out = at::zeros({1}, at::kByte);
  const auto in = at::empty({1}, at::kByte);
  for (int distance = 1; distance < peers.size(); distance <<= 1) {
    std::array<Transfer, 2> transfers{peers.recv(in, peers.before(distance)), peers.send(out, peers.after(distance))};
    peers.wait(transfers);
  }
}

}  // namespace shade::comm::exchange
