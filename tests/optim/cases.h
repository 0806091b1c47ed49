// The optimizers that every law is checked on, and slots to check them with.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "shade/optim/adambc.h"
#include "shade/optim/adamw.h"
#include "shade/optim/sgd.h"

namespace shade::optim {

struct Case {
  std::string name;
  std::unique_ptr<Optimizer> (*make)(StateType);
};

inline std::vector<Case> all_cases() {
  return {
      {"adamw", [](StateType t) { return make_adamw({.weight_decay = 0.1, .state_type = t}); }},
      {"adambc", [](StateType t) { return make_adambc({.weight_decay = 0.1, .state_type = t}, 0.3); }},
      {"sgd", [](StateType t) { return make_sgd({.weight_decay = 0.1, .state_type = t}); }},
      {"momentum", [](StateType t) { return make_sgd({.momentum = 0.9, .weight_decay = 0.1, .state_type = t}); }},
      {"nesterov",
       [](StateType t) { return make_sgd({.momentum = 0.9, .nesterov = true, .weight_decay = 0.1, .state_type = t}); }},
  };
}

inline std::string name_of(const testing::TestParamInfo<Case>& info) { return info.param.name; }
inline void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

}  // namespace shade::optim
