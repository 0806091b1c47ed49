// One measured experiment: warm-up, measured steps, memory. In this form one process, not private: a step is forward
// and backward.
#pragma once

#include <string>
#include <vector>

#include "shade/base/config.h"
#include "shade/base/json.h"
#include "shade/models/model.h"
#include "shade/models/registry.h"

namespace shade::experiment {

enum class ComputeType { fp32, bf16, fp64 };
inline std::span<const Name<ComputeType>> names_of(ComputeType) {
  static constexpr Name<ComputeType> kNames[] = {
      {"fp32", ComputeType::fp32}, {"bf16", ComputeType::bf16}, {"fp64", ComputeType::fp64}};
  return kNames;
}
at::ScalarType scalar_type(ComputeType type);

struct BenchConfig {
  std::string model = "llama-nano";
  models::Task task = models::Task::automatic;
  nn::AttentionKernel attention = nn::AttentionKernel::flash;
  models::Checkpointing checkpointing = models::Checkpointing::none;
  ComputeType dtype = ComputeType::fp32;
  int64_t seq_length = 1024, batch_size = 2, num_iter = 3, warmup_iter = 1;
  int64_t threads = 0;
  int64_t seed = 0;
  int64_t lora_rank = 0;
  bool peers = false;
  std::string trace;

  void declare(Fields& fields);
};

struct BenchResult {
  std::string description;
  int64_t parameters = 0, trainable = 0;
  std::vector<double> times_ms, peer_times_ms;
  Bytes peak, resident_peak, peer_peak;
  double loss = 0;
  double flops = 0;    // of one step: forward and twice that for backward
  int64_t tokens = 0;  // of one step

  double average_ms() const;
  Json json(const BenchConfig& config, const Json& whole_config) const;
};

BenchResult run_bench(const BenchConfig& config, const models::SizeOverrides& sizes);

}  // namespace shade::experiment
