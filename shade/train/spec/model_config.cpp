#include "shade/train/spec/model_config.h"

#include <filesystem>
#include <utility>

#include "shade/base/error.h"
#include "shade/models/hub.h"

namespace shade::train {

void ModelConfig::use_folder() {
  namespace fs = std::filesystem;
  if (model_folder.empty()) return;
  SHADE_REQUIRE(fs::exists(fs::path(model_folder) / "config.json"), "--model-folder ", model_folder,
                " has no config.json; expected the folder of a model");
  SHADE_REQUIRE(!fs::exists(fs::path(model) / "config.json") || fs::equivalent(fs::path(model), fs::path(model_folder)),
                "--model ", model, " is a folder, and so is --model-folder ", model_folder, "; drop one of them");
  model = std::exchange(model_folder, "");
}

models::ModelOptions ModelConfig::options() const {
  models::ModelOptions out{.task = task, .attention = attention, .checkpointing = checkpointing};
  out.loss_mean = loss_mean == models::LossMean::automatic ? chosen_mean : loss_mean;
  if (lora_rank > 0) out.lora = nn::LoraOptions{.rank = lora_rank, .alpha = lora_alpha};
  out.lora_targets = lora_targets;
  return out;
}

Fact ModelConfig::model_kind(const models::SizeOverrides& sizes) const {
  return {is_own() ? std::string(models::kOwnModel) : models::kind_of(model, sizes, options()),
          {"model.model", "model.model_folder", "model.task"}};
}

std::string ModelConfig::hub_name() const {
  const auto copy = models::hub_copy(model);
  return copy && copy->string() == weights ? model : std::string();
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
