// A training run as a user writes it down: a TOML file, a section for each module, every field also an option.
#pragma once

#include <functional>

#include "shade/comm/world.h"
#include "shade/data/config.h"
#include "shade/optim/config.h"
#include "shade/privacy/accounting/accountant.h"
#include "shade/privacy/config.h"
#include "shade/shard/config.h"
#include "shade/train/model_config.h"

namespace shade::train {

// [dp], beside how samples are clipped: what the privacy event is made of.
struct BudgetConfig {
  privacy::Sampler sampler = privacy::Sampler::poisson;  // resolve(): shuffled if not private and none was given
  double sample_rate = 0;
  int64_t max_batch = 0, population = 0;
  double target_epsilon = 0, max_epsilon = 0, delta = 1e-5;
  privacy::PrivacyUnit privacy_unit = privacy::PrivacyUnit::record;
  privacy::Accountant accountant = privacy::Accountant::prv;

  void declare(Fields& fields);
};

// In which type a model is exported.
enum class ExportType { automatic, fp32, bf16, fp16 };
inline std::span<const Name<ExportType>> names_of(ExportType) {
  static constexpr Name<ExportType> kNames[] = {{"auto", ExportType::automatic},
                                                {"fp32", ExportType::fp32},
                                                {"bf16", ExportType::bf16},
                                                {"fp16", ExportType::fp16}};
  return kNames;
}

struct TrainConfig {
  int64_t steps = 100;
  int64_t batch_size = 64;  // logical, expected under Poisson sampling
  int64_t seq_length = 128;
  std::string micro_batch = "auto";
  Bytes memory_limit{0};
  bool synthetic = false;
  int64_t records = 4096;  // of synthetic data
  Bytes sample_corpus{0};
  int64_t eval_records = 0, eval_every = 100;
  int64_t log_every = 10;
  int64_t save_every = 0, keep = 2;
  Seconds save_interval{600};
  bool restart = false;
  std::string resume_from, test_folder, output, export_folder, adapter_folder;
  ExportType export_dtype = ExportType::automatic;
  int64_t seed = 0, threads = 0;
  bool keep_key = false;
  double peak_gflops = 0;

  void declare(Fields& fields);
};

struct Recipe {
  ModelConfig model;
  models::SizeOverrides sizes;
  data::DataConfig data;
  shard::ShardConfig shard;
  optim::OptimConfig optim;
  privacy::DpConfig dp;
  BudgetConfig budget;
  TrainConfig train;
  comm::CommConfig comm;

  void declare(Config& config);
  // What follows from other fields, and what no single field can say; `config` knows which of them were given.
  // Resolving again changes nothing. Throws UsageError.
  Recipe& resolve(const Config& config);

  // What resolve() decided, to be announced at the start of the run.
  struct Decisions {
    std::string weights;    // where training starts
    std::string tokenizer;  // of a data folder; empty: there is none
    std::string privacy;    // why the run is private, or why it is not
  } decisions;
};

// The first setting, without its section, that only a private run has a use for, of those that were given, by whatever
// `given` says of a key such as "dp.sigma"; empty: none.
std::string asks_for_privacy(const Recipe& recipe, const std::function<bool(const std::string&)>& given);

// Every field with its value, as a recipe that reads back the same; without how this start of the run began.
std::string print_toml(const Config& config);

}  // namespace shade::train
