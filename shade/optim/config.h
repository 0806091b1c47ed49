// What a user says about the optimizer.
#pragma once

#include <memory>

#include "shade/base/config.h"
#include "shade/optim/optimizer.h"
#include "shade/optim/schedule.h"

namespace shade::optim {

enum class Algorithm { adamw, sgd };
inline std::span<const Name<Algorithm>> names_of(Algorithm) {
  static constexpr Name<Algorithm> kNames[] = {{"adamw", Algorithm::adamw}, {"sgd", Algorithm::sgd}};
  return kNames;
}

struct OptimConfig {
  Algorithm optimizer = Algorithm::adamw;
  double lr = 1e-4;
  double weight_decay = 0.01;
  bool decay_all = false;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double momentum = 0;
  bool nesterov = false;
  Shape schedule = Shape::constant;
  int64_t warmup_steps = 0, total_steps = 0;
  double grad_clip = 0;  // 0: not clipped
  StateType state_dtype = StateType::fp32;
  double ema = 0;  // decay of the weights' moving average; 0: none

  void declare(Fields& fields);
  void check() const;  // what no single field can say. Throws UsageError
};

std::unique_ptr<Optimizer> make_optimizer(const OptimConfig& config);  // checks
Schedule make_schedule(const OptimConfig& config);                     // checks

}  // namespace shade::optim
