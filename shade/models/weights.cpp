#include "shade/models/weights.h"

#include <ATen/ATen.h>

#include <set>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/io/scalar_type.h"
#include "shade/io/weight_folder.h"
#include "shade/io/weight_folder_writer.h"
#include "shade/nn/adapter.h"

namespace shade::models {
namespace {

// Files in the wild carry buffers that are no weights.
bool is_buffer(std::string_view name) { return name.ends_with("rotary_emb.inv_freq"); }

}  // namespace

void load_weights(nn::Parameters& parameters, const std::filesystem::path& from, at::ScalarType type, bool copy) {
  const io::WeightFolder folder(from);
  for (auto& weight : parameters.weights()) {
    SHADE_REQUIRE(folder.contains(weight.name()), from.string(), " has no tensor '", weight.name(),
                  "', which the model needs; is it a checkpoint of this architecture and task?");
    const auto& found = folder.info(weight.name());
    SHADE_REQUIRE(found.shape == weight.shape(), from.string(), ": tensor '", weight.name(), "' has shape ",
                  at::IntArrayRef(found.shape), ", the model expects ", at::IntArrayRef(weight.shape()));
    const bool view = !copy && io::scalar_type(found.dtype) == type;
    weight.bind(view ? folder.tensor(weight.name()) : folder.read(weight.name(), type));
  }
  refuse_strangers(folder, parameters);
}

void refuse_strangers(const io::WeightFolder& folder, const nn::Parameters& parameters) {
  std::set<std::string> known;
  for (const auto& weight : parameters.weights()) known.insert(weight.name());
  std::vector<std::string> strangers;
  for (const auto& name : folder.names())
    // A tied head is sometimes stored all the same; it repeats the embedding.
    if (!known.contains(name) && !is_buffer(name) && name != "lm_head.weight") strangers.push_back(name);
  SHADE_REQUIRE(strangers.empty(), folder.path().string(), " has ", strangers.size(),
                " tensors that the model doesn't know, e.g. '", strangers.empty() ? "" : strangers.front(), "'");
}

void save_weights(const nn::Parameters& parameters, const std::filesystem::path& folder, int64_t max_shard_bytes) {
  io::TensorMap tensors;
  for (const auto& weight : parameters.weights()) tensors.emplace(weight.name(), weight.value());
  io::write_weight_folder(folder, tensors, {.max_shard = Bytes{max_shard_bytes}});
}

void save_model(const Model& model, const std::filesystem::path& folder, Bytes max_shard) {
  const auto& weights = model.parameters().weights();
  for (const auto& weight : weights)
    SHADE_REQUIRE(!nn::is_adapter(weight.name()), "the model has a LoRA adapter '", weight.name(),
                  "', which readers of ", folder.string(), " would leave out; write its weights with save_weights");
  auto config = model.config_json();
  config["torch_dtype"] = io::hf_name(weights.front().value().scalar_type());
  save_weights(model.parameters(), folder, max_shard.count);
  write_json(folder / "config.json", config);
}

}  // namespace shade::models
