#include "shade/serve/adapter.h"

#include <ATen/ATen.h>

#include <set>

#include "shade/base/error.h"
#include "shade/io/model_file.h"
#include "shade/io/safetensors.h"
#include "shade/io/weight_folder.h"
#include "shade/models/config_file.h"
#include "shade/models/registry.h"
#include "shade/models/weights.h"
#include "shade/nn/adapter.h"

namespace shade::serve {
namespace {

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

}  // namespace

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
  options.lora_targets = file.words("target_modules");
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

}  // namespace shade::serve
