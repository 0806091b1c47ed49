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

constexpr const char *kHead = "lm_head.weight", *kEmbedding = "model.embed_tokens.weight";

// Files in the wild carry buffers that are no weights; a classifier has another head than the language model it is made
// from.
bool may_be_left_out(const std::string& name, bool other_head) {
  return name.ends_with("rotary_emb.inv_freq") || (other_head && name == kHead);
}

// A tied head is sometimes stored all the same. It must repeat the embedding, or it is another model's.
bool repeats_embedding(const io::WeightFolder& folder, const std::string& name) {
  if (name != kHead || !folder.contains(kEmbedding)) return false;
  const auto &head = folder.info(kHead), &table = folder.info(kEmbedding);
  return head.dtype == table.dtype && head.shape == table.shape &&
         at::equal(folder.tensor(kHead), folder.tensor(kEmbedding));
}

}  // namespace

std::string stored_name(const io::WeightFolder& folder, const std::string& weight) {
  constexpr std::string_view kPrefix = "model.";
  const auto bare = weight.starts_with(kPrefix) ? weight.substr(kPrefix.size()) : weight;
  return !folder.contains(weight) && folder.contains(bare) ? bare : weight;
}

void load_weights(nn::Parameters& parameters, const std::filesystem::path& from, at::ScalarType type, bool copy) {
  const io::WeightFolder folder(from);
  for (auto& weight : parameters.weights()) {
    const auto name = stored_name(folder, weight.name());
    SHADE_REQUIRE(folder.contains(name), from.string(), " has no tensor '", name,
                  "', which the model needs; is it a checkpoint of this architecture and task?");
    const auto& found = folder.info(name);
    SHADE_REQUIRE(found.shape == weight.shape(), from.string(), ": tensor '", name, "' has shape ",
                  at::IntArrayRef(found.shape), ", the model expects ", at::IntArrayRef(weight.shape()));
    const bool view = !copy && io::scalar_type(found.dtype) == type;
    weight.bind(view ? folder.tensor(name) : folder.read(name, type));
  }
  refuse_unknown(folder, parameters);
}

void refuse_unknown(const io::WeightFolder& folder, const nn::Parameters& parameters) {
  std::set<std::string> known;
  bool other_head = false;
  for (const auto& weight : parameters.weights()) {
    known.insert(stored_name(folder, weight.name()));
    other_head = other_head || weight.task_head();
  }
  std::vector<std::string> unknown;
  for (const auto& name : folder.names())
    if (!known.contains(name) && !may_be_left_out(name, other_head) && !repeats_embedding(folder, name))
      unknown.push_back(name);
  SHADE_REQUIRE(unknown != std::vector<std::string>{kHead}, folder.path().string(), " has an ", kHead,
                " that is not its embedding, and the model's head is tied to the embedding; choose an architecture "
                "that is not tied (tie_word_embeddings in config.json)");
  SHADE_REQUIRE(unknown.empty(), folder.path().string(), " has ", unknown.size(),
                " tensors that the model doesn't know, e.g. '", unknown.empty() ? "" : unknown.front(), "'");
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
