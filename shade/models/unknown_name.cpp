#include "shade/models/unknown_name.h"

#include <filesystem>

#include "shade/base/nearby_path.h"
#include "shade/base/strings.h"
#include "shade/base/visible_text.h"
#include "shade/models/decoder_config.h"
#include "shade/models/hub.h"

namespace shade::models {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModelFolder = "a model is a folder with a config.json and its weights";

std::string of_file(const fs::path& file) {
  const auto above = file.has_parent_path() ? file.parent_path() : fs::path(".");
  return fs::exists(above / "config.json")
             ? text(visible(file.string()), " is a file; name the model's folder: --model ", visible(above.string()))
             : text(visible(file.string()), " is a file; ", kModelFolder);
}

std::string of_folder(const fs::path& folder) {
  const auto name = visible(folder.string());
  if (fs::exists(folder / "recipe.toml"))
    return text("the folder ", name,
                " is a run of shade train, and not a model: add --export FOLDER to the command of "
                "that run, which then writes its model, and name that folder");
  if (fs::exists(folder / "adapter_config.json"))
    return text("the folder ", name, " has LoRA adapters, and not a model: name their base model");
  std::error_code fault;
  for (fs::directory_iterator entry(folder, fault), end; !fault && entry != end; entry.increment(fault))
    if (fs::exists(entry->path() / "config.json", fault))
      return text("the folder ", name, " has no config.json; did you mean '", visible(entry->path().string()), "'?");
  return text("the folder ", name, " has no config.json; ", kModelFolder);
}

// A name that can only be that of a folder, or whose folder's folder is there.
bool is_path(const std::string& name) {
  const fs::path path(name);
  return path.is_absolute() || name.starts_with('.') || name.starts_with('~') || name.ends_with('/') ||
         (path.has_parent_path() && (!is_hub_name(name) || fs::exists(path.parent_path())));
}

}  // namespace

std::string describe_unknown_name(const std::string& name, const std::vector<std::string>& known) {
  const fs::path path = (fs::path(name) / "").parent_path();  // without a slash at its end
  std::error_code fault;
  if (fs::is_directory(path, fault)) return of_folder(path);
  if (fs::exists(path, fault)) return of_file(path);
  if (name.starts_with('~'))
    return text("no such folder: ", visible(name),
                "; the shell replaces ~ only at the beginning of a word: write "
                "--model ~/FOLDER instead of --model=~/FOLDER, without quotes");
  const auto near = nearby(path);
  if (is_path(name)) return text("no such folder: ", visible(name), near.empty() ? text("; ", kModelFolder) : near);
  const auto supported = text("supported are folders of ", join(decoder_families(), ", "),
                              " models (model_type in their config.json), and the sizes ", join(known, ", "));
  if (is_hub_name(name)) {
    std::vector<std::string> hub;
    for (const auto& model : kHubModels) hub.emplace_back(model.hub);
    return text("no such folder: ", name, "; as a name of the Hugging Face hub: ", without_copy(name), "; ", supported,
                near.empty() ? suggestion(name, hub) : near);
  }
  return text("no such model: '", visible(name), "' is neither a folder nor a known size; Shade reads local folders: ",
              "download a model of the Hugging Face hub with `hf download ORGANISATION/MODEL --local-dir FOLDER`, then "
              "give --model FOLDER; ",
              supported, near.empty() ? suggestion(name, known) : near);
}

}  // namespace shade::models
