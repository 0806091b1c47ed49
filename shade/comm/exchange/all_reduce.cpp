// all_reduce, in place.
//
//   small (<= 64 KiB)  everybody sends everything to everybody, everybody adds in rank order
//                      steps 1    sent per rank (W-1) N            extra memory (W-1) N
//   large              reduce_scatter into the own slice, then all_gather
//                      steps 2    sent per rank 2 (W-1)/W N        extra memory that of reduce_scatter
#include <ATen/ATen.h>

#include "shade/comm/exchange/algorithms.h"
#include "shade/comm/partition.h"

namespace shade::comm::exchange {
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
  const auto own = tensor.narrow(0, mine.begin, mine.size);  // sent to nobody in the first step: free to be written
  reduce_scatter(peers, own, tensor, reduce, segment);
  all_gather(peers, tensor, own);
}

}  // namespace shade::comm::exchange
