#include "shade/models/registry.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "shade/base/effect.h"
#include "shade/base/program_path.h"
#include "shade/base/strings.h"
#include "shade/base/visible_text.h"
#include "shade/io/model_file.h"
#include "shade/models/decoder.h"
#include "shade/models/decoder_config.h"
#include "shade/models/dit.h"
#include "shade/models/hub.h"
#include "shade/models/linear_stack.h"

namespace shade::models {
namespace {

// The message about a --model that names nothing: what is at that place, and what was probably meant.

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

// Of a name that is no size of `known`, no folder with a config.json and no copy of a model of the hub.
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

// The families of models. A config says what its names and sizes are, which config.json describes one (the last: what
// no other does), how sizes are overridden, how many blocks are alike and what its sizes read like; Built is made from
// it and the options. What follows a slash in a name varies it (dit-xl/2), if the family can.
using AnyConfig = std::variant<DitConfig, LinearStackConfig, DecoderConfig>;

// Calls `body` with an empty config of each family until it answers.
template <class Body>
auto first_of(const Body& body) {
  return [&]<size_t... I>(std::index_sequence<I...>) {
    decltype(body(DecoderConfig{})) out{};
    static_cast<void>(((out = body(std::variant_alternative_t<I, AnyConfig>{})) || ...));
    return out;
  }(std::make_index_sequence<std::variant_size_v<AnyConfig>>{});
}

AnyConfig from_folder(const std::filesystem::path& folder, const SizeOverrides& sizes) {
  const auto file = folder / "config.json";
  const auto json = io::read_model_json(folder, "config.json");
  auto config = first_of([&]<class Config>(const Config&) -> std::optional<AnyConfig> {
    if (!Config::describes(json)) return std::nullopt;
    return Config::from_json(json, file.string());
  });
  std::visit([&](auto& found) { found.resize(sizes); }, *config);
  return *config;
}

template <class Config>
constexpr bool kVaries = requires(Config config) { config.vary("2", "dit-xl/2"); };

template <class Config>
auto find_named(const std::string& name) {
  return Config::named().find(kVaries<Config> ? name.substr(0, name.find('/')) : name);
}

bool is_size(const std::string& name) {
  return first_of([&]<class Config>(const Config&) { return find_named<Config>(name) != Config::named().end(); });
}

std::optional<AnyConfig> by_name(const std::string& name) {
  return first_of([&]<class Config>(const Config&) -> std::optional<AnyConfig> {
    const auto found = find_named<Config>(name);
    if (found == Config::named().end()) return std::nullopt;
    auto config = found->second;
    if constexpr (kVaries<Config>)
      if (const auto slash = name.find('/'); slash != std::string::npos) config.vary(name.substr(slash + 1), name);
    return config;
  });
}

// The name of a size in lower case (DiT-XL/2 is dit-xl/2), a folder, or the name as it is.
std::string own_name(const std::string& name) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (is_size(name)) return name;
  if (std::filesystem::exists(std::filesystem::path(name) / "config.json")) return name;
  if (is_size(lower)) return lower;
  if (const auto copy = hub_copy(name)) return copy->string();
  return hub_size(name).value_or(name);
}

AnyConfig find(const std::string& given, const SizeOverrides& sizes) {
  const auto name = own_name(given);
  if (auto found = by_name(name)) {
    std::visit([&](auto& config) { config.resize(sizes); }, *found);
    return *found;
  }
  if (const auto folder = model_folder(name)) return from_folder(*folder, sizes);
  throw UsageError(describe_unknown_name(given, model_names()));
}

template <class Config>
std::unique_ptr<Model> build(const Config& config, const ModelOptions& options) {
  return std::make_unique<typename Config::Built>(config, options);
}

// first + (count - 1) * (second - first)
int64_t extrapolated(int64_t first, int64_t second, int64_t count) {
  int64_t rest = 0, total = 0;
  SHADE_REQUIRE(
      !__builtin_mul_overflow(second - first, count - 1, &rest) && !__builtin_add_overflow(first, rest, &total),
      "a model of ", count, " blocks with ", second - first,
      " parameters each has more than can be counted; choose smaller sizes");
  return total;
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  first_of([&]<class Config>(const Config&) {
    for (const auto& [name, config] : Config::named()) names.push_back(name);
    return false;
  });
  return names;
}

std::optional<std::filesystem::path> model_folder(const std::string& name) {
  const auto own = own_name(name);
  if (is_size(own) || !std::filesystem::exists(std::filesystem::path(own) / "config.json")) return std::nullopt;
  return own;
}

void require_known(const std::string& name) {
  if (!is_size(own_name(name)) && !model_folder(name)) throw UsageError(describe_unknown_name(name, model_names()));
}

std::string describe_hub_name(const std::string& name) {
  const auto own = own_name(name);
  if (own == name || !is_hub_name(name) || (is_size(own) && hub_size(name) != own)) return {};
  return is_size(own) ? text(without_copy(name), ". It stands for the sizes of ", own, ", with random weights")
                      : text(name, " is read from ", own);
}

std::string config_in(const std::filesystem::path& folder) {
  return std::visit([](const auto& config) { return build(config, {})->config_json(); }, from_folder(folder, {}));
}

std::string model_title(const std::string& name, const SizeOverrides& sizes) {
  const auto used = find(name, sizes);
  const auto words = std::visit([](const auto& config) { return config.sizes(); }, used);
  if (std::visit([]<class Config>(const Config&) { return requires { Config::kCalledBySizes; }; }, used)) return words;
  const auto json = [](const auto& config) { return config.to_json(); };
  const auto called = model_folder(name) ? (std::filesystem::path(name) / "").parent_path().filename().string() : name;
  const bool own = std::visit(json, find(name, {})) == std::visit(json, used);
  return own ? called : text(words, ", shape of ", called);
}

std::vector<std::string> not_trained_with(const std::filesystem::path& folder) {
  const auto file = folder / "config.json";
  const auto json = io::read_model_json(folder, "config.json");
  return not_trained_with(ConfigFile(json, file.string()));
}

std::unique_ptr<Model> make_model(const std::string& name, const SizeOverrides& sizes, const ModelOptions& options) {
  SHADE_REQUIRE(name != kOwnModel, "the model of this run is a program's own: that program alone can make it");
  return std::visit([&](const auto& config) { return build(config, options); }, find(name, sizes));
}

std::string kind_of(const std::string& name, const SizeOverrides& sizes, const ModelOptions& options) {
  const auto of_one_block = [&](auto config) {
    config.blocks() = 1;
    const auto model = build(config, options);
    if (const auto of_text = model->text_traits()) return of_text->classifier ? kTextClassifier : kLanguageModel;
    return model->image_traits() ? kImageModel : kLinearModel;
  };
  auto of_any = sizes;  // what only a DiT has is judged by the kind that is found
  of_any.positions = nn::Positions::automatic;
  of_any.learn_sigma = false;
  of_any.in_channels = 0;
  return std::visit(of_one_block, find(name, of_any));
}

ModelSize size_of(const std::string& name, const SizeOverrides& sizes, const ModelOptions& options) {
  const auto count = [&](auto config) {
    config.check();
    const auto all = std::exchange(config.blocks(), 1);
    const auto one = build(config, options);
    config.blocks() = 2;
    const auto two = build(config, options);
    const auto of = [&](int64_t (nn::Parameters::*number)() const) {
      return extrapolated((one->parameters().*number)(), (two->parameters().*number)(), all);
    };
    return ModelSize{of(&nn::Parameters::count), of(&nn::Parameters::count_trainable)};
  };
  return std::visit(count, find(name, sizes));
}

}  // namespace shade::models
