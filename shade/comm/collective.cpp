#include "shade/comm/collective.h"

#include <algorithm>

namespace shade::comm {

Bytes Operation::payload() const {
  const auto bytes = [](const at::Tensor& t) { return t.defined() ? static_cast<int64_t>(t.nbytes()) : 0; };
  return {std::max(bytes(output), bytes(input))};
}

c10::Device Operation::device() const { return output.defined() ? output.device() : c10::Device(c10::kCPU); }

double bus_factor(Collective kind, int ranks) {
  const double w = ranks;
  switch (kind) {
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all: return (w - 1) / w;
    case Collective::all_reduce: return 2 * (w - 1) / w;
    case Collective::broadcast: return 1;
    case Collective::barrier: return 0;
  }
  return 0;
}

}  // namespace shade::comm
