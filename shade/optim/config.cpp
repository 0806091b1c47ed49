#include "shade/optim/config.h"

#include "shade/base/error.h"
#include "shade/optim/adamw.h"
#include "shade/optim/sgd.h"

namespace shade::optim {

void OptimConfig::declare(Fields& f) {
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
  f.add("grad_clip", grad_clip,
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

void OptimConfig::check() const {
  const auto below_one = [](const char* name, double value) {
    SHADE_REQUIRE(value >= 0 && value < 1, name, " is ", value, "; expected at least 0 and less than 1");
  };
  below_one("beta1", beta1);
  below_one("beta2", beta2);
  below_one("momentum", momentum);
  below_one("ema", ema);
  SHADE_REQUIRE(eps > 0 || optimizer != Algorithm::adamw,
                "eps is 0; expected more: a weight without gradient would become 0 / 0");
  SHADE_REQUIRE(!nesterov || momentum > 0, "nesterov needs momentum; set --momentum, e.g. 0.9");
  if (schedule == Shape::constant) return;
  SHADE_REQUIRE(total_steps > 0, "schedule ", to_string(schedule), " must know where it ends; set --total-steps");
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
  return make_adamw({.beta1 = c.beta1,
                     .beta2 = c.beta2,
                     .eps = c.eps,
                     .weight_decay = c.weight_decay,
                     .decay_all = c.decay_all,
                     .state_type = c.state_dtype});
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
