// What a user says about the optimizer.
#pragma once

#include <memory>

#include "shade/base/config.h"
#include "shade/optim/adambc.h"
#include "shade/optim/optimizer.h"
#include "shade/optim/schedule.h"

namespace shade::optim {

// The update rule: AdamW, AdamW corrected for the noise of private runs (optim/adambc.h), or SGD.
enum class Algorithm { adamw, adambc, sgd };
inline std::span<const Name<Algorithm>> names_of(Algorithm) {
  static constexpr Name<Algorithm> kNames[] = {
      {"adamw", Algorithm::adamw}, {"adambc", Algorithm::adambc}, {"sgd", Algorithm::sgd}};
  return kNames;
}

// The optimizer, its learning-rate schedule and the average of the weights.
struct OptimConfig {
  Algorithm optimizer = Algorithm::adamw;  // adambc: for private runs alone
  double lr = 1e-4;                        // learning rate; with a schedule, its peak
  double weight_decay = 0.01;        // adamw, adambc: decoupled, times the learning rate; sgd: added to the gradient
  bool decay_all = false;            // whether norms and biases decay too
  double beta1 = 0.9;                // adamw, adambc: decay rate of the first moment, below 1
  double beta2 = 0.999;              // adamw, adambc: decay rate of the second moment, below 1
  double eps = 1e-8;                 // adamw: added to the denominator; adambc: smallest denominator
  double noise_floor = kNoiseFloor;  // adambc: smallest second moment, as a fraction of the noise variance
  double momentum = 0;               // sgd; 0: none, and sgd keeps no state
  bool nesterov = false;             // sgd: Nesterov momentum; needs momentum
  Shape schedule = Shape::constant;  // of the learning rate after the warm-up
  int64_t warmup_steps = 0;          // updates of linear warm-up
  int64_t total_steps = 0;           // update at which cosine and linear reach 0; they need it
  double grad_clip = 0;              // 0: not clipped
  StateType state_dtype = StateType::fp32;  // bf16: half the memory, rounded stochastically
  double ema = 0;                           // decay of the weights' moving average; 0: none

  // Adds every field with its name, help, unit and range (base/config.h).
  void declare(Fields& f) {
    f.add("optimizer", optimizer,
          {.help =
               "optimization algorithm; adambc: adamw whose second moment is corrected for the noise of a private run",
           .flags = {"--optimizer"}});
    f.add("lr", lr,
          {.help = "learning rate; with a schedule, its peak value",
           .min = 0,
           .flags = {"--lr", "--learning-rate"},
           .common = true});
    f.add("weight_decay", weight_decay,
          {.help = "weight decay factor, not applied to norms and biases; adamw, adambc: decoupled, multiplied by the "
                   "learning rate; sgd: added to the gradient",
           .min = 0,
           .flags = {"--weight-decay"}});
    f.add("decay_all", decay_all,
          {.help = "whether weight decay also applies to norms and biases",
           .flags = {"--decay-all"},
           .needs = {{"optim.weight_decay"}}});
    f.add("beta1", beta1,
          {.help = "decay rate of the first moment of adamw and adambc",
           .min = 0,
           .max = 1,
           .flags = {"--beta1"},
           .needs = {{"optim.optimizer", {"adamw", "adambc"}}}});
    f.add("beta2", beta2,
          {.help = "decay rate of the second moment of adamw and adambc",
           .min = 0,
           .max = 1,
           .flags = {"--beta2"},
           .needs = {{"optim.optimizer", {"adamw", "adambc"}}}});
    f.add("eps", eps,
          {.help = "term added to adamw's denominator for numerical stability; adambc: smallest denominator",
           .min = 0,
           .flags = {"--eps"},
           .needs = {{"optim.optimizer", {"adamw", "adambc"}}}});
    f.add("noise_floor", noise_floor,
          {.help = "smallest second moment of adambc after the noise variance is subtracted, as a fraction of that "
                   "variance",
           .min = 0,
           .flags = {"--noise-floor"},
           .needs = {{"optim.optimizer", {"adambc"}}}});
    f.add("momentum", momentum,
          {.help = "momentum of sgd; 0: none, and sgd keeps no state",
           .min = 0,
           .max = 1,
           .flags = {"--momentum"},
           .needs = {{"optim.optimizer", {"sgd"}}}});
    f.add("nesterov", nesterov,
          {.help = "whether sgd uses Nesterov momentum",
           .flags = {"--nesterov"},
           .needs = {{"optim.optimizer", {"sgd"}}, {"optim.momentum"}}});
    f.add("schedule", schedule, {.help = "learning-rate schedule after the warm-up", .flags = {"--schedule"}});
    f.add("warmup_steps", warmup_steps,
          {.help = "length of the linear warm-up of the learning rate",
           .unit = "updates",
           .min = 0,
           .flags = {"--warmup-steps"}});
    f.add("total_steps", total_steps,
          {.help = "update at which the cosine and linear schedules reach 0; 0: the last training step",
           .unit = "updates",
           .min = 0,
           .flags = {"--total-steps"},
           .needs = {{"optim.schedule", {"cosine", "linear"}}}});
    f.add("grad_clip", grad_clip,
          {.help = "largest norm of the whole gradient in runs that are not private, where --max-grad-norm means the "
                   "same; 0: no clipping",
           .min = 0,
           .flags = {"--grad-clip"},
           .if_not_given = "train, if not private: --max-grad-norm; otherwise 0",
           .needs = {{"dp.dp", {"none"}}}});
    f.add("state_dtype", state_dtype,
          {.help = "data type of the optimizer's state; bf16 halves its memory and rounds stochastically",
           .flags = {"--optimizer-state-dtype"}});
    f.add("ema", ema,
          {.help = "decay rate of an exponential moving average of the weights, e.g. 0.9999; the average is kept in "
                   "fp32, and evaluated and exported in place of the weights; 0: no average",
           .min = 0,
           .max = 1,
           .flags = {"--ema"}});
  }
  void check() const;  // what no single field can say. Throws UsageError
};

std::unique_ptr<Optimizer> make_optimizer(const OptimConfig& config);  // checks
Schedule make_schedule(const OptimConfig& config);                     // checks

}  // namespace shade::optim
