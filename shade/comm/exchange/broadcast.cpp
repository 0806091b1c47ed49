// broadcast from `root`, in place.
//
//   small (<= 256 KiB) or W = 2   binomial tree             steps ceil(log2 W)   sent by the root ceil(log2 W) N
//   large                         root deals out slices, then all_gather
//                                                           steps 2              sent by the root 2 (W-1)/W N
#include <ATen/ATen.h>

#include "shade/comm/exchange/algorithms.h"
#include "shade/comm/partition.h"

namespace shade::comm::exchange {
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

}  // namespace shade::comm::exchange
