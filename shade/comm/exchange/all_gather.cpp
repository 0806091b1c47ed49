// all_gather: every rank sends its slice to every other, straight into its place.
//
//   steps 1    sent per rank (W-1)/W N    extra memory none    copies: own slice, while the wire is busy
#include <ATen/ATen.h>

#include "shade/comm/exchange/algorithms.h"
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

}  // namespace shade::comm::exchange
