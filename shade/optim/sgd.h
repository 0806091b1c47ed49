// Stochastic gradient descent with momentum, through libtorch's fused kernel. Weight decay is added to the gradient.
#pragma once

#include <memory>

#include "shade/optim/optimizer.h"

namespace shade::optim {

struct SgdOptions {
  double momentum = 0;  // 0: no state at all
  bool nesterov = false;
  double weight_decay = 0;
  bool decay_all = false;  // Slot::without_decay is ignored
  StateType state_type = StateType::fp32;
};

std::unique_ptr<Optimizer> make_sgd(const SgdOptions& options);  // state: momentum

}  // namespace shade::optim
