#include "shade/cli/run_name.h"

#include <cctype>
#include <filesystem>
#include <vector>

#include "shade/base/error.h"
#include "shade/io/digest.h"

namespace shade::cli {
namespace {

// A setting that isn't here may change from start to start of one run: how long it is, how it is computed and saved.
struct Section {
  const char* name;
  std::vector<const char*> fields;
};
const std::vector<Section>& experiment() {
  static const std::vector<Section> sections{
      {"model",
       {"model", "weights", "from_scratch", "task", "lora_rank", "lora_alpha", "lora_targets", "hidden_dim",
        "num_layers", "num_heads", "num_kv_heads", "ffn_dim", "vocab_size", "image_size", "patch_size", "num_classes"}},
      {"data", {"data_folder", "tokenizer", "packing", "loss_on"}},
      {"dp", {"dp", "clip_style", "max_grad_norm", "delta", "target_epsilon", "privacy_unit"}},
      {"optim", {"optimizer", "lr", "schedule"}},
      {"train", {"synthetic", "records", "batch_size", "seq_length", "seed"}}};
  return sections;
}

// The last name of a path, or of a name on the hub, without its ending and without what a shell would ask about.
std::string last_name(const std::string& path) {
  auto name = (std::filesystem::path(path) / "").parent_path().filename().string();
  for (const auto* ending : {".jsonl", ".json", ".csv", ".parquet", ".arrow", ".txt"})
    if (name.ends_with(ending) && name.size() > std::string_view(ending).size())
      name.resize(name.size() - std::string_view(ending).size());
  for (auto& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_' && c != '.') c = '_';
  return name.substr(0, 40);
}

}  // namespace

std::string run_name(const Json& config) {
  auto settings = Json::array();
  for (const auto& [section, fields] : experiment())
    for (const auto* field : fields) settings.push_back(config.at(section).at(field));
  if (config.at("dp").at("target_epsilon") == 0.0) settings.push_back(config.at("dp").at("sigma"));  // else it follows
  const auto folder = config.at("data").at("data_folder").get<std::string>();
  return text(last_name(config.at("model").at("model").get<std::string>()), "-",
              folder.empty() ? "synthetic" : last_name(folder), "-",
              io::to_hex(io::digest_of(settings.dump(-1, ' ', false, Json::error_handler_t::replace))).substr(0, 8));
}

}  // namespace shade::cli
