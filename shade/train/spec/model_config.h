// The section [model], beside its sizes: of recipes and of every verb that makes a model.
#pragma once

#include "shade/base/effect.h"
#include "shade/base/json.h"
#include "shade/models/registry.h"
#include "shade/nn/dtype.h"

namespace shade::train {

// The types a model is trained in. fp64 is for checking (shade verify): optimizers and masters are fp32.
enum class ComputeType { fp32, bf16 };
inline std::span<const Name<ComputeType>> names_of(ComputeType) {
  static constexpr Name<ComputeType> kNames[] = {{"fp32", ComputeType::fp32}, {"bf16", ComputeType::bf16}};
  return kNames;
}

inline nn::DType dtype_of(ComputeType type) { return type == ComputeType::bf16 ? nn::DType::bf16 : nn::DType::fp32; }
inline at::ScalarType scalar_type(ComputeType type) { return nn::scalar_type(dtype_of(type)); }

struct ModelConfig {
  std::string model = "llama-nano";
  std::string model_folder;   // a copy of it; empty: the model says where it is
  std::string weights;        // where training starts; empty: those of the model's folder
  bool from_scratch = false;  // random weights
  models::Task task = models::Task::automatic;
  models::LossMean loss_mean = models::LossMean::automatic;
  models::LossMean chosen_mean = models::LossMean::record;  // what automatic stands for (decide())
  nn::AttentionKernel attention = nn::AttentionKernel::flash;
  models::Checkpointing checkpointing = models::Checkpointing::none;
  ComputeType dtype = ComputeType::fp32;
  int64_t lora_rank = 0;
  double lora_alpha = 32;
  std::vector<std::string> lora_targets{"q_proj", "v_proj"};

  void declare(Fields& f) {
    declare_model(f);
    f.add("weights", weights,
          {.help = "folder or .safetensors file with the initial weights; if not set, those of the model's folder",
           .flags = {"--weights"}});
    f.add("from_scratch", from_scratch,
          {.help = "whether to start from random weights, initialised by --seed",
           .flags = {"--from-scratch"},
           .common = true});
    declare_task(f);
    f.add("dtype", dtype,
          {.help = "data type of computation; master weights are fp32", .flags = {"--dtype"}, .common = true});
    declare_adapters(f);
  }
  // Without the weights, and without dtype, which may be a list
  void declare_options(Fields& f) {
    declare_model(f);
    declare_task(f);
    declare_adapters(f);
  }
  bool is_own() const { return model == models::kOwnModel; }  // made by the program, not by its name
  Fact model_kind(const models::SizeOverrides& sizes) const;  // of kModelKind
  void use_folder();  // takes the place of `model`, and is what is written down. Throws UsageError
  models::ModelOptions options() const;
  Json adapter_json(bool classifier) const;  // PEFT's adapter_config.json
  std::string hub_name() const;              // of the weights, where they are a copy from the hub; otherwise empty

 private:
  void declare_model(Fields& f) {
    f.add("model", model,
          {.help = "name of an architecture, folder with config.json (shade train loads its weights), or name on the "
                   "Hugging Face hub, e.g. meta-llama/Llama-3.1-8B, with a copy in the local cache; without a copy its "
                   "sizes are used with random weights",
           .flags = {"--model", "--model-name", "--model-name-or-path"},
           .common = true});
    f.add("model_folder", model_folder,
          {.help = "folder with a copy of the model, used in place of the Hugging Face cache",
           .flags = {"--model-folder"}});
  }
  void declare_task(Fields& f) {
    f.add("task", task, {.help = "training task; auto: the usual one of the model", .flags = {"--task"}});
    f.add(
        "loss_mean", loss_mean,
        {.help = "items that a language model's loss is averaged over; token: all predicted tokens of the batch; "
                 "record: records, each with the mean over its tokens; auto: record in a private run, otherwise token",
         .flags = {"--loss-mean"},
         .needs = {{kModelKind, {kLanguageModel}}}});
    f.add("attention", attention, {.help = "attention kernel", .flags = {"--attention"}, .needs = {needs_attention()}});
    f.add("checkpointing", checkpointing,
          {.help = "activation checkpointing; block: each block's activations are recomputed in the backward pass",
           .flags = {"--checkpointing"},
           .common = true});
  }
  void declare_adapters(Fields& f) {
    f.add("lora_rank", lora_rank,
          {.help = "rank of the LoRA adapters, which are trained while all other weights are frozen; 0: no adapters",
           .min = 0,
           .flags = {"--lora-rank", "--lora-r"},
           .common = true});
    f.add("lora_alpha", lora_alpha,
          {.help = "scale of the LoRA adapters, divided by their rank",
           .flags = {"--lora-alpha"},
           .needs = {{"model.lora_rank"}}});
    f.add("lora_targets", lora_targets,
          {.help = "names of linear layers that get a LoRA adapter",
           .flags = {"--lora-targets"},
           .needs = {{"model.lora_rank"}}});
  }
};

}  // namespace shade::train
