#include "shade/train/model_config.h"

namespace shade::train {

void ModelConfig::declare(Fields& f) {
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

void ModelConfig::declare_options(Fields& f) {
  declare_model(f);
  declare_task(f);
  declare_adapters(f);
}

void ModelConfig::declare_model(Fields& f) {
  f.add("model", model,
        {.help = "name of an architecture, or a folder with config.json; shade train loads the weights in it",
         .flags = {"--model", "--model-name"}});
}

void ModelConfig::declare_task(Fields& f) {
  f.add("task", task, {.help = "what is trained", .flags = {"--task"}});
  f.add("loss_mean", loss_mean,
        {.help = "what a language model's loss is a mean of; token: all tokens of the batch that are predicted; "
                 "record: records, each with the mean over its tokens; auto: token, in a private run record",
         .flags = {"--loss-mean"}});
  f.add("attention", attention, {.help = "kernel", .flags = {"--attention"}});
  f.add("checkpointing", checkpointing, {.help = "recompute activations in backward", .flags = {"--checkpointing"}});
}

void ModelConfig::declare_adapters(Fields& f) {
  f.add("lora_rank", lora_rank,
        {.help = "adapters of this rank, the rest frozen; 0: none", .min = 0, .flags = {"--lora-rank"}});
  f.add("lora_alpha", lora_alpha, {.help = "adapters are scaled by alpha over rank", .flags = {"--lora-alpha"}});
  f.add("lora_targets", lora_targets,
        {.help = "names of linear layers that get a LoRA adapter", .flags = {"--lora-targets"}});
}

models::ModelOptions ModelConfig::options() const {
  models::ModelOptions out{.task = task, .attention = attention, .checkpointing = checkpointing};
  out.loss_mean = loss_mean == models::LossMean::automatic ? chosen_mean : loss_mean;
  if (lora_rank > 0) out.lora = nn::LoraOptions{.rank = lora_rank, .alpha = lora_alpha};
  out.lora_targets = lora_targets;
  return out;
}

Json ModelConfig::adapter_json(bool classifier) const {
  Json out{{"peft_type", "LORA"},
           {"task_type", classifier ? "SEQ_CLS" : "CAUSAL_LM"},
           {"base_model_name_or_path", weights.empty() ? Json() : Json(weights)},
           {"r", lora_rank},
           {"lora_alpha", lora_alpha},
           {"target_modules", lora_targets},
           {"lora_dropout", 0.0},
           {"bias", "none"},
           {"inference_mode", true}};
  if (classifier) out["modules_to_save"] = {"score"};
  return out;
}

}  // namespace shade::train
