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

  void declare(Fields& f) {
    f.add("optimizer", optimizer, {.help = "algorithm", .flags = {"--optimizer"}});
    f.add("lr", lr, {.help = "learning rate; of a schedule, its peak", .min = 0, .flags = {"--lr", "--learning-rate"}});
    f.add("weight_decay", weight_decay,
          {.help = "adamw: decoupled, times the learning rate; sgd: added to the gradient; none on norms and biases",
           .min = 0,
           .flags = {"--weight-decay"}});
    f.add("decay_all", decay_all, {.help = "weight decay on norms and biases too", .flags = {"--decay-all"}});
    f.add("beta1", beta1, {.help = "adamw: memory of the first moment", .min = 0, .max = 1, .flags = {"--beta1"}});
    f.add("beta2", beta2, {.help = "adamw: memory of the second moment", .min = 0, .max = 1, .flags = {"--beta2"}});
    f.add("eps", eps, {.help = "adamw: added to the denominator", .min = 0, .flags = {"--eps"}});
    f.add("momentum", momentum, {.help = "sgd: 0 keeps no state", .min = 0, .max = 1, .flags = {"--momentum"}});
    f.add("nesterov", nesterov, {.help = "sgd: look ahead along the momentum", .flags = {"--nesterov"}});
    f.add("schedule", schedule, {.help = "learning rate after the warm-up", .flags = {"--schedule"}});
    f.add("warmup_steps", warmup_steps,
          {.help = "linear rise to the learning rate", .unit = "updates", .min = 0, .flags = {"--warmup-steps"}});
    f.add("total_steps", total_steps,
          {.help = "where cosine and linear reach 0; 0: not said",
           .unit = "updates",
           .min = 0,
           .flags = {"--total-steps"}});
    f.add(
        "grad_clip", grad_clip,
        {.help = "largest norm of the whole gradient in runs that are not private, as --max-grad-norm; 0: not clipped",
         .min = 0,
         .flags = {"--grad-clip"},
         .if_not_given = "train, if not private: --max-grad-norm; otherwise 0"});
    f.add("state_dtype", state_dtype,
          {.help = "of the optimizer's state; bf16 halves it, rounding stochastically",
           .flags = {"--optimizer-state-dtype"}});
    f.add("ema", ema,
          {.help = "decay of a moving average of the weights, in fp32, which is evaluated and exported in their place, "
                   "e.g. 0.9999; 0: none",
           .min = 0,
           .max = 1,
           .flags = {"--ema"}});
  }
  void check() const;  // what no single field can say. Throws UsageError
};

std::unique_ptr<Optimizer> make_optimizer(const OptimConfig& config);  // checks
Schedule make_schedule(const OptimConfig& config);                     // checks

}  // namespace shade::optim
