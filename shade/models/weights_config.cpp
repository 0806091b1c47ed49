#include "shade/models/weights_config.h"

#include <algorithm>
#include <set>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/io/model_file.h"
#include "shade/io/scalar_type.h"
#include "shade/io/weight_folder.h"

namespace shade::models {
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
  const auto theirs = config_in(*folder), ours = make_model(model, sizes, options)->config_json();
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
