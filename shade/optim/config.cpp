#include "shade/optim/config.h"

#include "shade/base/error.h"
#include "shade/optim/adamw.h"
#include "shade/optim/sgd.h"

namespace shade::optim {

void OptimConfig::check() const {
  const auto below_one = [](const char* name, double value) {
    SHADE_REQUIRE(value >= 0 && value < 1, name, " is ", value, "; expected at least 0 and less than 1");
  };
  below_one("beta1", beta1);
  below_one("beta2", beta2);
  below_one("momentum", momentum);
  below_one("ema", ema);
  SHADE_REQUIRE(eps > 0 || optimizer == Algorithm::sgd,
                "eps is 0; expected more: a weight without gradient would become 0 / 0");
  SHADE_REQUIRE(eps <= 0.1 || optimizer != Algorithm::adamw, "eps is ", eps,
                "; expected at most 0.1: it is the constant in adamw's denominator; a privacy budget is a target "
                "epsilon (--target-epsilon)");
  SHADE_REQUIRE(!nesterov || momentum > 0, "nesterov needs momentum, e.g. 0.9 (--momentum)");
  if (schedule == Shape::constant) return;
  SHADE_REQUIRE(total_steps > 0, "schedule ", to_string(schedule),
                " must know where it ends; set total_steps (--total-steps)");
  SHADE_REQUIRE(warmup_steps < total_steps, "warmup_steps is ", warmup_steps, "; expected less than the ", total_steps,
                " of total_steps");
}

namespace {

std::unique_ptr<Optimizer> make_algorithm(const OptimConfig& c) {
  if (c.optimizer == Algorithm::sgd)
    return make_sgd({.momentum = c.momentum,
                     .nesterov = c.nesterov,
                     .weight_decay = c.weight_decay,
                     .decay_all = c.decay_all,
                     .state_type = c.state_dtype});
  const AdamWOptions adam{.beta1 = c.beta1,
                          .beta2 = c.beta2,
                          .eps = c.eps,
                          .weight_decay = c.weight_decay,
                          .decay_all = c.decay_all,
                          .state_type = c.state_dtype};
  return c.optimizer == Algorithm::adambc ? make_adambc(adam, c.noise_floor) : make_adamw(adam);
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimConfig& c) {
  c.check();
  auto optimizer = make_algorithm(c);
  if (c.ema > 0) optimizer->keep_average(c.ema);
  return optimizer;
}

Schedule make_schedule(const OptimConfig& c) {
  c.check();
  return {.shape = c.schedule, .peak = c.lr, .warmup = c.warmup_steps, .total = c.total_steps};
}

}  // namespace shade::optim
