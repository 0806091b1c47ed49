#include "shade/train/exports.h"

#include "shade/base/new_file.h"
#include "shade/checkpoint/agreement.h"
#include "shade/io/weight_folder_writer.h"
#include "shade/models/weights_config.h"

namespace shade::train {
namespace {

at::ScalarType type_of(const Recipe& recipe) {
  switch (recipe.train.export_dtype) {
    case ExportType::fp32: return at::kFloat;
    case ExportType::bf16: return at::kBFloat16;
    case ExportType::fp16: return at::kHalf;
    case ExportType::automatic: break;
  }
  const auto& model = recipe.model;
  return model.weights.empty() ? scalar_type(model.dtype) : models::type_of_weights(model.weights);
}

}  // namespace

checkpoint::ExportOptions export_options(const Recipe& recipe) {
  checkpoint::ExportOptions out{.dtype = type_of(recipe)};
  if (const auto lora = recipe.model.options().lora) out.lora_scale = lora->scale();
  return out;
}

Exports::Exports(const Recipe& recipe, models::Model& model, const data::Dataset& records, shard::Runtime& runtime)
    : recipe_(&recipe), model_(&model), runtime_(&runtime) {
  const auto& train = recipe.train;
  if (!train.export_folder.empty() || !train.adapter_folder.empty()) texts_ = text_export(recipe, model, records);
  if (!train.export_folder.empty()) options_ = export_options(recipe);
}

void Exports::prepare() const {
  const auto& train = recipe_->train;
  const auto& control = runtime_->groups().control;
  checkpoint::together(control, "looking where to export to", [&] {
    if (control.rank() != 0) return;
    if (!train.export_folder.empty()) io::prepare_weight_folder(train.export_folder);
    if (!train.adapter_folder.empty()) checkpoint::prepare_adapter_folder(train.adapter_folder);
  });
  if (!train.export_folder.empty()) checkpoint::try_export(*runtime_, train.export_folder, control, options_);
}

std::vector<Need> Exports::needs() const {
  const auto element = static_cast<int64_t>(c10::elementSize(options_.dtype)), master = int64_t{4};
  const auto& [train, weights] = std::tie(recipe_->train, model_->parameters());
  std::vector<Need> out;
  if (!train.export_folder.empty())
    out.push_back({"the model", train.export_folder, Bytes{element * weights.count()}, "choose another --export"});
  if (!train.adapter_folder.empty())
    out.push_back({"the adapter", train.adapter_folder, Bytes{master * weights.count_trainable()},
                   "choose another --export-adapter"});
  return out;
}

// The adapter is small and is all that was trained: it is safe before the rest is written.
void Exports::write() const {
  if (!recipe_->train.adapter_folder.empty()) write_adapter();
  if (!recipe_->train.export_folder.empty()) write_model();
}

void Exports::write_files(const std::string& folder, const std::map<std::string, std::string>& files) const {
  const auto& control = runtime_->groups().control;
  checkpoint::together(control, text("writing a tokenizer to ", folder), [&] {
    for (const auto& [name, content] : files) {
      if (control.rank() != 0) return;
      NewFile file(std::filesystem::path(folder) / name);
      file.write_at(0, std::as_bytes(std::span(content)));
      file.commit();
    }
  });
}

void Exports::write_adapter() const {
  write_files(recipe_->train.adapter_folder, texts_.tokenizer);
  const auto of_text = model_->text_traits();
  const bool classifier = of_text && of_text->classifier;
  checkpoint::export_adapter(*runtime_, recipe_->train.adapter_folder, recipe_->model.adapter_json(classifier),
                             runtime_->groups().control);
}

void Exports::write_model() const {
  write_files(recipe_->train.export_folder, texts_.tokenizer);
  write_files(recipe_->train.export_folder, texts_.generation);
  checkpoint::export_model(*runtime_, recipe_->train.export_folder, texts_.config, runtime_->groups().control,
                           options_);
}

}  // namespace shade::train
