// The section [model], beside its sizes: of recipes and of every verb that makes a model.
#pragma once

#include "shade/models/registry.h"
#include "shade/train/compute_type.h"

namespace shade::train {

struct ModelConfig {
  std::string model = "llama-nano";
  std::string weights;        // where training starts; empty: those of the model's folder
  bool from_scratch = false;  // random weights
  models::Task task = models::Task::automatic;
  models::LossMean loss_mean = models::LossMean::automatic;
  models::LossMean chosen_mean = models::LossMean::record;  // what automatic stands for, by Recipe::resolve()
  nn::AttentionKernel attention = nn::AttentionKernel::flash;
  models::Checkpointing checkpointing = models::Checkpointing::none;
  ComputeType dtype = ComputeType::fp32;
  int64_t lora_rank = 0;
  double lora_alpha = 32;
  std::vector<std::string> lora_targets{"q_proj", "v_proj"};

  void declare(Fields& fields);
  void declare_options(Fields& fields);  // without the weights, and without dtype, which may be a list
  models::ModelOptions options() const;
  Json adapter_json(bool classifier) const;  // PEFT's adapter_config.json

 private:
  void declare_model(Fields& fields);
  void declare_task(Fields& fields);
  void declare_adapters(Fields& fields);
};

}  // namespace shade::train
