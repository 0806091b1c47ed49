#include "shade/train/exports.h"

#include "shade/checkpoint/agreement.h"
#include "shade/checkpoint/export.h"
#include "shade/io/weight_folder_writer.h"
#include "shade/train/records.h"

namespace shade::train {

void Exports::prepare() const {
  const auto& train = recipe_->train;
  const auto& control = runtime_->groups().control;
  checkpoint::together(control, "looking where to export to", [&] {
    if (control.rank() != 0) return;
    if (!train.export_folder.empty()) io::prepare_weight_folder(train.export_folder);
    if (!train.adapter_folder.empty()) checkpoint::prepare_adapter_folder(train.adapter_folder);
  });
}

std::vector<Need> Exports::needs() const {
  constexpr int64_t kElement = 4;  // bytes: exports are fp32
  const auto& [train, weights] = std::tie(recipe_->train, model_->parameters());
  std::vector<Need> out;
  if (!train.export_folder.empty())
    out.push_back({"the model", train.export_folder, Bytes{kElement * weights.count()}, "choose another --export"});
  if (!train.adapter_folder.empty())
    out.push_back({"the adapter", train.adapter_folder, Bytes{kElement * weights.count_trainable()},
                   "choose another --export-adapter"});
  return out;
}

void Exports::write() const {
  if (!recipe_->train.export_folder.empty()) write_model();
  if (!recipe_->train.adapter_folder.empty()) write_adapter();
}

void Exports::write_adapter() const {
  const bool classifier = model_->parameters().find("score.weight") != nullptr;
  checkpoint::export_adapter(*runtime_, recipe_->train.adapter_folder, recipe_->model.adapter_json(classifier),
                             runtime_->groups().control);
}

void Exports::write_model() const {
  checkpoint::ExportOptions options;
  if (const auto lora = recipe_->model.options().lora) options.lora_scale = lora->scale();
  checkpoint::export_model(*runtime_, recipe_->train.export_folder, config_with(*model_, *records_),
                           runtime_->groups().control, options);
}

}  // namespace shade::train
