#include "shade/optim/config.h"

#include <gtest/gtest.h>

#include "tests/support/fault.h"

namespace shade::optim {
namespace {

using test::fault;

TEST(OptimConfig, MakesWhatItSays) {
  OptimConfig optim;
  Config config;
  config.add("optim", optim);
  EXPECT_EQ(make_optimizer(optim)->state_names(), (std::vector<std::string>{"exp_avg", "exp_avg_sq"}));
  EXPECT_EQ(make_optimizer(optim)->state_bytes(1).count, 8);
  config.read_toml_text(
      "[optim]\noptimizer = 'sgd'\nmomentum = 0.9\nstate_dtype = 'bf16'\n"
      "lr = 2\nschedule = 'linear'\nwarmup_steps = 2\ntotal_steps = 6\n",
      "recipe");
  EXPECT_EQ(make_optimizer(optim)->state_names(), std::vector<std::string>{"momentum"});
  EXPECT_EQ(make_optimizer(optim)->state_bytes(1).count, 2);
  const auto schedule = make_schedule(optim);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(1), 1);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(4), 1);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(6), 0);
}

TEST(OptimConfig, HasTheFlagsOfTheCommandLine) {
  OptimConfig optim;
  Config config;
  config.add("optim", optim);
  std::vector<std::string> flags;
  for (const auto& field : config.fields())
    flags.insert(flags.end(), field.info().flags.begin(), field.info().flags.end());
  EXPECT_EQ(flags, (std::vector<std::string>{"--optimizer", "--lr", "--learning-rate", "--weight-decay", "--decay-all",
                                             "--beta1", "--beta2", "--eps", "--noise-floor", "--momentum", "--nesterov",
                                             "--schedule", "--warmup-steps", "--total-steps", "--grad-clip",
                                             "--optimizer-state-dtype", "--ema"}));
}

TEST(OptimConfig, RefusesFieldsOutOfRange) {
  OptimConfig optim;
  Config config;
  config.add("optim", optim);
  EXPECT_EQ(fault([&] { config.set("optim.lr", "-1"); }), "optim.lr: '-1' is out of range; expected at least 0.0");
  EXPECT_EQ(fault([&] { config.set("optim.optimizer", "adam"); }),
            "optim.optimizer: 'adam' is unknown; expected one of adamw, adambc, sgd; did you mean 'adamw'?");
  EXPECT_EQ(fault([&] { config.set("optim.warmup-steps", "-2"); }),
            "optim.warmup_steps: '-2' is out of range; expected at least 0.0 updates");
}

TEST(OptimConfig, RefusesWhatDoesntFitTogether) {
  const auto refused = [](const OptimConfig& c) { return fault([&] { make_optimizer(c); }); };
  EXPECT_EQ(refused({.beta1 = 1}), "beta1 is 1; expected at least 0 and less than 1");
  EXPECT_EQ(refused({.beta2 = -0.5}), "beta2 is -0.5; expected at least 0 and less than 1");
  EXPECT_EQ(refused({.optimizer = Algorithm::sgd, .momentum = 1}),
            "momentum is 1; expected at least 0 and less than 1");
  EXPECT_EQ(refused({.eps = 0}), "eps is 0; expected more: a weight without gradient would become 0 / 0");
  EXPECT_NE(refused({.optimizer = Algorithm::adambc, .eps = 0}), "no error") << "the noise may be 0";
  EXPECT_EQ(refused({.optimizer = Algorithm::sgd, .eps = 0}), "no error") << "sgd has no eps";
  EXPECT_EQ(refused({.optimizer = Algorithm::sgd, .nesterov = true}), "nesterov needs momentum, e.g. 0.9 (--momentum)");
  EXPECT_EQ(refused({.schedule = Shape::cosine}),
            "schedule cosine must know where it ends; set total_steps (--total-steps)");
  EXPECT_EQ(refused({.schedule = Shape::linear, .warmup_steps = 10, .total_steps = 10}),
            "warmup_steps is 10; expected less than the 10 of total_steps");
  EXPECT_EQ(refused({.schedule = Shape::linear, .warmup_steps = 9, .total_steps = 10}), "no error");
  EXPECT_EQ(refused({.warmup_steps = 10}), "no error") << "a constant rate may warm up without an end";
}

}  // namespace
}  // namespace shade::optim
