#include "shade/train/text_export.h"

#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/data/chat/chat_template.h"
#include "shade/data/text_dataset.h"
#include "shade/data/tokenizer/tokenizer_export.h"
#include "shade/io/model_file.h"

namespace shade::train {
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
  if (texts == nullptr) return text_export(recipe, model, std::nullopt);
  return text_export(recipe, model,
                     TrainedTexts{.tokenizer = texts->tokenizer(),
                                  .classifier = texts->options().task == data::Task::classify,
                                  .classes = texts->classes()});
}

TextExport text_export(const Recipe& recipe, const models::Model& model, const std::optional<TrainedTexts>& texts) {
  TextExport out{.config = model.config_json(), .tokenizer = {}, .generation = {}, .taken = {}};
  if (!texts) return out;
  const auto& [tokens, classifier, classes] = *texts;
  auto exported = data::export_tokenizer(
      recipe.data.tokenizer, tokens,
      {.classifier = classifier, .vocab = out.config["vocab_size"], .seq_length = recipe.train.seq_length});
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
