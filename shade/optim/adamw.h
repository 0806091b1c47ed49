// AdamW: Adam with decoupled weight decay, through libtorch's fused kernel (CPU and CUDA).
#pragma once

#include <memory>

#include "shade/optim/optimizer.h"

namespace shade::optim {

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weight_decay = 0.01;
  bool decay_all = false;  // Slot::without_decay is ignored
  StateType state_type = StateType::fp32;
};

std::unique_ptr<Optimizer> make_adamw(const AdamWOptions& options);  // state: exp_avg, exp_avg_sq

}  // namespace shade::optim
