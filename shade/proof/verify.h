// `shade verify`: is every private gradient right? Models of the registry through proof/check_gradients.h, and whole
// steps from their records on through proof/check_step.h.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "shade/models/registry.h"
#include "shade/privacy/config.h"
#include "shade/proof/check_gradients.h"

namespace shade::proof {

struct VerifyConfig {
  std::string model;  // empty: small models of every family
  models::Task task = models::Task::automatic;
  int64_t seq_length = 7, lora_rank = 0, max_records_per_user = 1;
  std::vector<std::string> methods, strategies;  // empty: all that fit the world
  std::vector<std::string> dtypes, clip_styles;  // empty: every one, fp32 and flat on all models and strategies
  bool all = false;                              // the product of models, dtypes, accumulation and strategies
  bool verbose = false;
  bool enable_profiling = false;  // for who runs it: the phases' times are of interest
  privacy::NormAlgorithm norm_algorithm = privacy::NormAlgorithm::automatic;
  int64_t tile_size = 4;  // small: several tiles in a short text
  int64_t seed = 1;

  void declare(Fields& fields);        // [verify]
  void declare_model(Fields& fields);  // [model], as in recipes
};

// What such a verification leaves out that the one without options has, in words; empty: nothing.
std::string left_out(const VerifyConfig& config);

// Collective; every rank gets the same rows. `progress` hears of every row on rank 0.
std::vector<VerifyRow> verify(comm::World& world, const VerifyConfig& config, const models::SizeOverrides& sizes,
                              const std::function<void(size_t done, size_t all)>& progress);

}  // namespace shade::proof
