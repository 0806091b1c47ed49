// barrier: dissemination. After round k a rank knows of 2^(k+1) ranks.
//
//   steps ceil(log2 W)    sent per rank ceil(log2 W) bytes
#include <ATen/ATen.h>

#include <array>

#include "shade/comm/exchange/algorithms.h"

namespace shade::comm::exchange {

void barrier(Peers& peers) {
  const auto out = at::zeros({1}, at::kByte);
  const auto in = at::empty({1}, at::kByte);
  for (int distance = 1; distance < peers.size(); distance <<= 1) {
    std::array<Transfer, 2> transfers{peers.recv(in, peers.before(distance)), peers.send(out, peers.after(distance))};
    peers.wait(transfers);
  }
}

}  // namespace shade::comm::exchange
