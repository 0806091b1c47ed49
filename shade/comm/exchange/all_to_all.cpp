// all_to_all: rank r's part j goes to rank j.
//
//   steps 1    sent per rank: all but the own part    extra memory none
#include <ATen/ATen.h>

#include <numeric>

#include "shade/comm/exchange/algorithms.h"

namespace shade::comm::exchange {

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

}  // namespace shade::comm::exchange
