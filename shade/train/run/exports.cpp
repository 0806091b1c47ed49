#include "shade/train/run/exports.h"

#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/files.h"
#include "shade/base/strings.h"
#include "shade/checkpoint/agreement.h"
#include "shade/data/chat/chat_template.h"
#include "shade/data/text_dataset.h"
#include "shade/data/tokenizer/tokenizer_export.h"
#include "shade/io/model_file.h"
#include "shade/io/weight_folder_writer.h"
#include "shade/models/weights.h"

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
  checkpoint::export_adapter(*runtime_, recipe_->train.adapter_folder, recipe_->model.adapter_json(classifier).dump(),
                             runtime_->groups().control);
}

void Exports::write_model() const {
  write_files(recipe_->train.export_folder, texts_.tokenizer);
  write_files(recipe_->train.export_folder, texts_.generation);
  checkpoint::export_model(*runtime_, recipe_->train.export_folder, texts_.config.dump(), runtime_->groups().control,
                           options_);
}

namespace {

constexpr const char* kGeneration = "generation_config.json";

void name_classes(Json& config, const std::vector<std::string>& classes) {
  for (size_t i = 0; i < classes.size(); ++i) config["id2label"][std::to_string(i)] = classes[i];
  if (!config.contains("id2label")) return;
  auto numbers = Json::object();  // a key more in `config` would move what is iterated over
  for (const auto& [number, name] : config["id2label"].items())
    numbers[name.get<std::string>()] = *parse_integer(number);
  config["label2id"] = std::move(numbers);
}

// One id, or a list of them.
bool has_id(const Json& ids, data::TokenId id) {
  return ids.is_array() ? std::find(ids.begin(), ids.end(), Json(id)) != ids.end() : ids == id;
}

bool has_generation(const Recipe& recipe) {
  return !recipe.model.weights.empty() && io::has_model_file(recipe.model.weights, kGeneration);
}

// Which tokens begin and end a text. Several ends stay if the tokenizer's is one of them. Without a word on the
// beginning transformers would assume one.
void set_ends(Json& config, const data::Tokenizer& tokens) {
  if (tokens.bos())
    config["bos_token_id"] = *tokens.bos();
  else if (!config.contains("bos_token_id"))
    config["bos_token_id"] = nullptr;
  if (!config.contains("eos_token_id") || !has_id(config["eos_token_id"], tokens.eos()))
    config["eos_token_id"] = tokens.eos();
}

}  // namespace

Json generation_config(const Recipe& recipe, const data::Tokenizer& tokens) {
  auto out = has_generation(recipe) ? io::read_model_json(recipe.model.weights, kGeneration) : Json::object();
  set_ends(out, tokens);
  if (!out.contains("pad_token_id")) out["pad_token_id"] = tokens.pad();
  return out;
}

TextExport text_export(const Recipe& recipe, const models::Model& model, const data::Dataset& trained_on) {
  const auto* texts = dynamic_cast<const data::TextDataset*>(&trained_on);
  // A program that brings the texts says where their tokenizer is, or exports none.
  const auto& tokenizer = recipe.data.tokenizer;
  if (texts == nullptr || (recipe.model.is_own() && tokenizer.empty())) return text_export(recipe, model, std::nullopt);
  SHADE_REQUIRE(
      !recipe.model.is_own() || data::open_tokenizer(tokenizer)->fingerprint() == texts->tokenizer().fingerprint(),
      "the tokenizer ", tokenizer, " is not the one that the texts were read with (", texts->tokenizer().describe(),
      ')');
  return text_export(recipe, model,
                     TrainedTexts{.tokenizer = texts->tokenizer(),
                                  .classifier = texts->options().task == data::Task::classify,
                                  .classes = texts->classes()});
}

TextExport text_export(const Recipe& recipe, const models::Model& model, const std::optional<TrainedTexts>& texts) {
  TextExport out{.config = parse_json(model.config_json()), .tokenizer = {}, .generation = {}, .taken = {}};
  if (!texts && model.image_traits()) name_classes(out.config, data::read_classes(recipe.data.classes));
  if (!texts) return out;
  const auto& [tokens, classifier, classes] = *texts;
  SHADE_REQUIRE(out.config.contains("vocab_size"),
                "the config_json() of a model of texts has no vocab_size, which its tokenizer is exported for");
  auto exported = data::export_tokenizer(
      recipe.data.tokenizer, tokens,
      {.classifier = classifier, .vocab = out.config["vocab_size"], .seq_length = recipe.work.seq_length});
  name_classes(out.config, classes);
  set_ends(out.config, tokens);
  // As pad_token_id, the end of texts would keep its embedding from being trained by who reads this.
  if (exported.pad != tokens.eos()) out.config["pad_token_id"] = exported.pad;
  out.tokenizer = std::move(exported.files);
  out.taken = std::move(exported.taken);
  // One that was named takes the place of the tokenizer's own.
  if (const auto& name = recipe.data.chat_template; !name.empty() && !classifier)
    out.tokenizer["chat_template.jinja"] = data::ChatTemplate(recipe.data.tokenizer, name, tokens).jinja();
  if (classifier) return out;
  out.generation[kGeneration] = generation_config(recipe, tokens).dump(2);
  if (has_generation(recipe)) out.taken.push_back(std::filesystem::path(recipe.model.weights) / kGeneration);
  return out;
}

}  // namespace shade::train
