// Is every private gradient right? Each method, strategy and dtype against the definition: one sample at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "shade/base/json.h"
#include "shade/models/registry.h"
#include "shade/nn/dtype.h"
#include "shade/privacy/config.h"
#include "shade/shard/runtime.h"

namespace shade::proof {

struct VerifyConfig {
  std::string model;  // empty: small models of every family
  models::Task task = models::Task::automatic;
  int64_t seq_length = 7, lora_rank = 0;
  std::vector<std::string> methods, strategies, dtypes;  // empty: all that fit the world; fp32
  bool all = false;                                      // every dtype, accumulation, loss and checkpointing
  bool verbose = false;
  privacy::ClipStyle clip_style = privacy::ClipStyle::flat;
  privacy::NormAlgorithm norm_algorithm = privacy::NormAlgorithm::automatic;
  int64_t tile_size = 4;  // small: several tiles in a short text
  int64_t seed = 1;

  void declare(Fields& fields);
};

// A model and how it is trained.
struct VerifyModel {
  std::string label, name;
  models::SizeOverrides sizes;
  models::ModelOptions options;
  int64_t seq_length = 7;
};

struct VerifyCase {
  const VerifyModel* model;
  privacy::DpConfig dp;
  shard::ShardConfig shard;
  nn::DType dtype = nn::DType::fp32;
  int64_t micro_steps = 1;
};

struct VerifyRow {
  std::string method, strategy, dtype, model;
  int ranks = 1;
  int64_t micro_steps = 1;
  double max_rel_norm = 0, max_rel_grad = 0;
  bool noise_equal = true, pass = false;
  std::vector<std::string> details{};  // per-layer norms of this rank, if asked for

  Json json() const;
};

// The marks of a dtype: 1e-5, 1e-10, 1e-2.
double tolerance(nn::DType dtype);

// Collective; every rank gets the same rows (details are its own). `progress` hears of every row on rank 0.
std::vector<VerifyRow> verify(comm::World& world, const VerifyConfig& config, const models::SizeOverrides& sizes,
                              const std::function<void(size_t done, size_t all)>& progress);

}  // namespace shade::proof
