#include "shade/serve/opened_model.h"

#include <ATen/ATen.h>

#include <filesystem>
#include <memory>
#include <set>

#include "shade/base/effect.h"
#include "shade/base/error.h"
#include "shade/base/json.h"
#include "shade/base/program_path.h"
#include "shade/base/strings.h"
#include "shade/checkpoint/saved_weights.h"
#include "shade/io/model_file.h"
#include "shade/io/safetensors.h"
#include "shade/io/weight_folder.h"
#include "shade/models/config_file.h"
#include "shade/models/model.h"
#include "shade/models/registry.h"
#include "shade/models/weights.h"
#include "shade/nn/adapter.h"
#include "shade/train/feed/records.h"
#include "shade/train/run/exports.h"
#include "shade/train/run/run_folder.h"

namespace shade::serve {
namespace {

// LoRA adapters as PEFT writes them, put on their base model.
inline constexpr const char* kAdapterConfig = "adapter_config.json";

class Adapter {
 public:
  // `base`: the folder of the base model; empty: the one that adapter_config.json names. Throws UsageError for adapters
  // that compute something else than W + alpha / r * B A, naming the setting.
  Adapter(const std::filesystem::path& folder, const std::string& base);

  const std::filesystem::path& base() const { return base_; }

  // The base model with the adapters as layers, and a classifier's head if they have one. Every weight is bound, every
  // tensor of the adapters used.
  std::unique_ptr<models::Model> model(at::ScalarType type) const;

 private:
  std::filesystem::path folder_, base_;
  Json config_;
};

namespace fs = std::filesystem;

constexpr const char *kWeights = "adapter_model.safetensors", *kPrefix = "base_model.model.", *kHead = "score.weight";

// Settings with which the tensors fit and something else would be computed, and what they are where that is not so.
void require_plain(const models::ConfigFile& file, const Json& config) {
  SHADE_REQUIRE(file.get<std::string>("peft_type", "LORA") == "LORA", file.source(), ": peft_type is ",
                config["peft_type"], "; expected LORA");
  const std::pair<const char*, Json> plain[] = {{"use_rslora", false},
                                                {"use_dora", false},
                                                {"fan_in_fan_out", false},
                                                {"bias", "none"},
                                                {"alpha_pattern", Json::object()}};
  for (const auto& [key, value] : plain)
    SHADE_REQUIRE(!file.has(key) || config[key] == value, file.source(), ": ", key, " is ", config[key],
                  ", which is not supported; merge the adapters into their base with PEFT (merge_and_unload)");
  SHADE_REQUIRE(config.contains("target_modules") && config["target_modules"].is_array(), file.source(),
                ": target_modules must be a list of layer names");
}

Adapter::Adapter(const fs::path& folder, const std::string& base)
    : folder_(folder), config_(io::read_model_json(folder, kAdapterConfig)) {
  const models::ConfigFile file(config_, (folder / kAdapterConfig).string());
  require_plain(file, config_);
  const auto named = base.empty() ? file.get<std::string>("base_model_name_or_path", "") : base;
  const auto found = named.empty() ? std::nullopt : models::model_folder(named);
  SHADE_REQUIRE(found, "the base model of the adapters in ", folder.string(),
                named.empty() ? " is not named" : text(", ", named, ", is not a model folder"),
                "; name its folder (--base FOLDER)");
  base_ = *found;
}

std::unique_ptr<models::Model> Adapter::model(at::ScalarType type) const {
  const models::ConfigFile file(config_, (folder_ / kAdapterConfig).string());
  const io::SafetensorsFile tensors(io::open_model_file(folder_, kWeights));
  models::ModelOptions options;
  options.lora = nn::LoraOptions{.rank = file.need<int64_t>("r"), .alpha = file.need<double>("lora_alpha")};
  options.lora_targets = file.texts("target_modules");
  models::SizeOverrides sizes;
  options.task = file.get<std::string>("task_type", "") == "SEQ_CLS" ? models::Task::classify : models::Task::lm;
  const auto head_name = std::string(kPrefix) + kHead;
  const bool head = tensors.contains(head_name);
  if (head) sizes.num_classes = tensors.info(head_name).shape.at(0);
  auto model = models::make_model(base_.string(), sizes, options);

  const io::WeightFolder base(base_);
  std::set<std::string> unused;
  for (const auto& [name, info] : tensors.header().tensors) unused.insert(std::string(name));
  for (auto& weight : model->parameters().weights()) {
    const bool own = nn::is_adapter(weight.name()) || (head && weight.task_head());
    const auto name = own ? kPrefix + weight.name() : models::stored_name(base, weight.name());
    const auto place = own ? folder_ / kWeights : base_;
    SHADE_REQUIRE(own ? tensors.contains(name) : base.contains(name), place.string(), " has no tensor '", name,
                  "', which the model needs");
    const auto& shape = own ? tensors.info(name).shape : base.info(name).shape;
    SHADE_REQUIRE(shape == weight.shape(), place.string(), ": tensor '", name, "' has shape ", at::IntArrayRef(shape),
                  ", the model expects ", at::IntArrayRef(weight.shape()));
    weight.bind(own ? tensors.read(name, type) : base.read(name, type));
    if (own) unused.erase(name);
  }
  SHADE_REQUIRE(unused.empty(), folder_ / kWeights, " has ", unused.size(),
                " tensors that the model doesn't know, e.g. '", unused.empty() ? "" : *unused.begin(), "'");
  models::refuse_unknown(base, model->parameters());
  return model;
}

namespace fs = std::filesystem;

Json json_in(const fs::path& folder, const char* file) {
  return io::has_model_file(folder, file) ? io::read_model_json(folder, file) : Json::object();
}

// How to generate; in older folders config.json says it too.
Json generation_in(const fs::path& folder) {
  return json_in(folder,
                 io::has_model_file(folder, "generation_config.json") ? "generation_config.json" : "config.json");
}

// Where texts are cut; transformers writes a huge number if that is not known.
int64_t seq_length_in(const fs::path& folder) {
  constexpr double kUnlimited = 1e9;
  const auto length = json_in(folder, "tokenizer_config.json").value("model_max_length", Json());
  return length.is_number() && length < kUnlimited ? length.get<int64_t>() : 0;
}

// The tokenizer that is given, or the first of the folders that has one.
void open_tokenizer(OpenedModel& opened, const OpenOptions& options, const std::vector<fs::path>& folders) {
  const auto traits = opened.model->text_traits();
  SHADE_REQUIRE(traits, opened.model->describe(), " reads no text; expected a language model or a classifier of texts");
  opened.tokenizer_place = options.tokenizer;
  for (const auto& folder : folders)
    if (opened.tokenizer_place.empty() && io::has_model_file(folder, "tokenizer.json"))
      opened.tokenizer_place = folder.string();
  SHADE_REQUIRE(!opened.tokenizer_place.empty() || folders.empty(), "no tokenizer.json in ", folders.front().string(),
                "; name the model's tokenizer (--tokenizer FOLDER, or --tokenizer bytes)");
  opened.tokenizer = data::open_tokenizer(opened.tokenizer_place);
  SHADE_REQUIRE(opened.tokenizer->vocab() <= traits->vocabulary, "the tokenizer (", opened.tokenizer->describe(),
                ") has ", opened.tokenizer->vocab(), " tokens, the model ", traits->vocabulary,
                "; name the model's own (--tokenizer FOLDER)");
}

OpenedModel open_folder(const fs::path& folder, const OpenOptions& options) {
  OpenedModel out;
  out.title = folder.string();
  out.model = models::make_model(folder.string(), {}, {});
  models::load_weights(out.model->parameters(), folder, options.type, /*copy=*/false);
  if (const auto of_images = out.model->image_traits()) {
    out.classes = of_images->class_names;
    return out;
  }
  open_tokenizer(out, options, {folder});
  out.generation = generation_in(folder);
  out.classes = out.model->text_traits()->class_names;
  out.seq_length = seq_length_in(folder);
  return out;
}

OpenedModel open_adapter(const fs::path& folder, const OpenOptions& options) {
  const Adapter adapter(folder, options.base);
  OpenedModel out;
  out.title = text(folder.string(), " on ", adapter.base().string());
  out.model = adapter.model(options.type);
  open_tokenizer(out, options, {folder, adapter.base()});
  out.classes = out.model->text_traits()->class_names;  // of the base; PEFT's format has no place for names
  out.generation = generation_in(adapter.base());
  out.seq_length = seq_length_in(folder);
  return out;
}

OpenedModel open_run(const train::RunPlace& place, const OpenOptions& options) {
  const auto recipe = train::recipe_of(place);
  checkpoint::SavedWeights saved(place.checkpoint);
  OpenedModel out;
  out.title = text(place.run.string(), ", step ", saved.manifest().steps);
  out.model = models::make_model(recipe.model.model, recipe.sizes, recipe.model.options());
  for (auto& weight : out.model->parameters().weights()) {
    const auto value = saved.whole(weight.name());
    SHADE_REQUIRE(value.sizes() == at::IntArrayRef(weight.shape()), place.checkpoint.string(), ": weight '",
                  weight.name(), "' has shape ", value.sizes(), ", the model of its recipe.toml ",
                  at::IntArrayRef(weight.shape()));
    weight.bind(value.to(options.type));
  }
  out.data = recipe.data;
  out.seq_length = recipe.work.seq_length;
  out.is_private = recipe.dp.is_private();
  if (out.model->image_traits()) {
    out.classes = data::read_classes(recipe.data.classes);
    return out;
  }
  auto own = options;
  if (own.tokenizer.empty()) own.tokenizer = recipe.data.tokenizer;
  open_tokenizer(out, own, {});
  out.generation = train::generation_config(recipe, *out.tokenizer);
  out.classes = train::classes_of(recipe, *out.model->text_traits());
  return out;
}

constexpr const char* kExpected =
    "expected a model folder (config.json and weights), a folder of LoRA adapters (adapter_config.json), or a run of "
    "shade train (recipe.toml and checkpoints)";

std::string no_model(const fs::path& path, const std::string& place) {
  if (!fs::exists(path)) return text("no such folder: ", place, "; ", kExpected, nearby(place));
  const auto runs = train::runs_in(path);
  return runs.empty() ? text(place, " is not a model; ", kExpected)
                      : text(place, " is a folder of runs; name one of them: ", join(runs, ", "));
}

}  // namespace

data::HeadClasses OpenedModel::head() const {
  const auto traits = model->text_traits();
  return {.number = traits->classifier ? traits->classes : 0, .names = classes, .may_be_named = false};
}

std::string kind_of(const std::string& place) {
  const auto path = (fs::path(place) / "").parent_path();
  if (io::has_model_file(path, kAdapterConfig)) return kLanguageModel;
  if (const auto run = train::find_run(path)) {
    const auto recipe = train::recipe_of(*run);
    return models::kind_of(recipe.model.model, recipe.sizes, recipe.model.options());
  }
  const auto folder = models::model_folder(place);
  return folder ? models::kind_of(folder->string(), {}, {}) : kLanguageModel;
}

OpenedModel open_model(const std::string& place, const OpenOptions& options) {
  const auto path = (fs::path(place) / "").parent_path();  // without a slash at its end
  const bool adapter = io::has_model_file(path, kAdapterConfig);
  SHADE_REQUIRE(adapter || options.base.empty(), "--base is for LoRA adapters, and ", place, " has no ", kAdapterConfig,
                "; drop it");
  if (adapter) return open_adapter(path, options);
  if (const auto run = train::find_run(path)) return open_run(*run, options);
  const auto folder = models::model_folder(place);
  if (!folder) throw UsageError(no_model(path, place));
  return open_folder(*folder, options);
}

}  // namespace shade::serve
