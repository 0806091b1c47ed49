// The section [model], beside its sizes: of recipes and of every verb that makes a model.
#pragma once

#include "shade/models/registry.h"
#include "shade/train/compute_type.h"

namespace shade::train {

struct ModelConfig {
  std::string model = "llama-nano";
  std::string model_folder;   // a copy of it; empty: the model says where it is
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

  void declare(Fields& f) {
    declare_model(f);
    f.add("weights", weights,
          {.help = "folder or .safetensors file to start from; if not set, those of the model's folder",
           .flags = {"--weights"}});
    f.add("from_scratch", from_scratch,
          {.help = "start from random weights, initialised by --seed", .flags = {"--from-scratch"}});
    declare_task(f);
    f.add("dtype", dtype, {.help = "of computation; masters are fp32", .flags = {"--dtype"}});
    declare_adapters(f);
  }
  // Without the weights, and without dtype, which may be a list
  void declare_options(Fields& f) {
    declare_model(f);
    declare_task(f);
    declare_adapters(f);
  }
  void use_folder();  // takes the place of `model`, and is what is written down. Throws UsageError
  models::ModelOptions options() const;
  Json adapter_json(bool classifier) const;  // PEFT's adapter_config.json
  std::string hub_name() const;              // of the weights, where they are a copy from the hub; otherwise empty

 private:
  void declare_model(Fields& f) {
    f.add("model", model,
          {.help =
               "name of an architecture, a folder with config.json (shade train loads the weights in it), or a name of "
               "the Hugging Face hub, e.g. meta-llama/Llama-3.1-8B, of which the local cache has a copy; without a "
               "copy its sizes are used, with random weights",
           .flags = {"--model", "--model-name", "--model-name-or-path"}});
    f.add("model_folder", model_folder,
          {.help = "folder with a copy of the model, used in place of the Hugging Face cache",
           .flags = {"--model-folder"}});
  }
  void declare_task(Fields& f) {
    f.add("task", task, {.help = "what is trained", .flags = {"--task"}});
    f.add("loss_mean", loss_mean,
          {.help = "what a language model's loss is a mean of; token: all tokens of the batch that are predicted; "
                   "record: records, each with the mean over its tokens; auto: token, in a private run record",
           .flags = {"--loss-mean"}});
    f.add("attention", attention, {.help = "kernel", .flags = {"--attention"}});
    f.add("checkpointing", checkpointing, {.help = "recompute activations in backward", .flags = {"--checkpointing"}});
  }
  void declare_adapters(Fields& f) {
    f.add("lora_rank", lora_rank,
          {.help = "adapters of this rank, the rest frozen; 0: none", .min = 0, .flags = {"--lora-rank", "--lora-r"}});
    f.add("lora_alpha", lora_alpha, {.help = "adapters are scaled by alpha over rank", .flags = {"--lora-alpha"}});
    f.add("lora_targets", lora_targets,
          {.help = "names of linear layers that get a LoRA adapter", .flags = {"--lora-targets"}});
  }
};

}  // namespace shade::train
