#include "shade/models/weights.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/io/dtype.h"
#include "shade/io/model_file.h"
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
  auto config = parse_json(model.config_json());
  config["torch_dtype"] = io::hf_name(weights.front().value().scalar_type());
  save_weights(model.parameters(), folder, max_shard.count);
  write_json(folder / "config.json", config);
}

namespace {

namespace fs = std::filesystem;

// How to train, the longest text, and names. A classifier has its own head, tied or not.
bool may_differ(const std::string& key, bool classifier) {
  static const std::set<std::string> kFree{
      "architectures", "bos_token_id",      "class_dropout_prob", "eos_token_id",
      "id2label",      "initializer_range", "pad_token_id",       "max_position_embeddings"};
  return kFree.contains(key) || (classifier && key == "tie_word_embeddings");
}

std::string shown_value(const Json& value) { return value.is_null() ? "not set" : value.dump(); }

}  // namespace

std::optional<fs::path> config_folder(const fs::path& weights) {
  const auto folder = fs::is_directory(weights) ? weights : weights.parent_path();
  return fs::exists(folder / "config.json") ? std::optional(folder) : std::nullopt;
}

at::ScalarType type_of_weights(const fs::path& weights) {
  if (const auto folder = config_folder(weights)) {
    const auto config = io::read_model_json(*folder, "config.json");
    for (const char* key : {"dtype", "torch_dtype"})
      if (const auto found = config.find(key); found != config.end() && found->is_string())
        if (const auto type = io::from_hf_name(found->get<std::string>())) return *type;
  }
  const io::WeightFolder tensors(weights);
  for (const auto& name : tensors.names()) {
    const auto type = io::scalar_type(tensors.info(name).dtype);
    if (c10::isFloatingType(type) && c10::elementSize(type) > 1) return type;
  }
  return at::kFloat;
}

void require_same_function(const std::string& model, const SizeOverrides& sizes, const ModelOptions& options,
                           const fs::path& weights) {
  const auto folder = config_folder(weights);
  if (!folder) return;
  const auto theirs = parse_json(config_in(*folder)),
             ours = parse_json(make_model(model, sizes, options)->config_json());
  std::set<std::string> keys;
  for (const auto& config : {theirs, ours})
    for (const auto& [key, value] : config.items()) keys.insert(key);
  std::vector<std::string> differences;
  for (const auto& key : keys) {
    const auto found = theirs.value(key, Json()), expected = ours.value(key, Json());
    if (found != expected && !may_differ(key, ours.contains("id2label")))
      differences.push_back(text(key, " is ", shown_value(found), ", and ", shown_value(expected), " in ", model));
  }
  SHADE_REQUIRE(differences.empty(), (*folder / "config.json").string(), ": ", join(differences, "; "),
                ": with these weights the model would compute something else; train them as they are described, with "
                "--model ",
                folder->string(), " and no option that changes its sizes");
}

}  // namespace shade::models
