#include "shade/models/registry.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <utility>
#include <variant>

#include "shade/models/decoder.h"
#include "shade/models/dit.h"
#include "shade/models/hub.h"
#include "shade/models/linear_stack.h"
#include "shade/models/unsupported.h"

namespace shade::models {
namespace {

const std::map<std::string, DecoderConfig>& decoders() {
  static const nn::RopeScaling llama31{
      .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_max_position = 8192};
  static const nn::RopeScaling llama32{
      .factor = 32, .low_freq_factor = 1, .high_freq_factor = 4, .original_max_position = 8192};
  static const DecoderConfig qwen15{.family = "qwen2",
                                    .hidden = 1536,
                                    .layers = 28,
                                    .heads = 12,
                                    .kv_heads = 2,
                                    .ffn = 8960,
                                    .vocab = 151936,
                                    .norm_eps = 1e-6,
                                    .rope_theta = 1e6,
                                    .tied = true,
                                    .qkv_bias = true};
  static const DecoderConfig llama3{.hidden = 4096,
                                    .layers = 32,
                                    .heads = 32,
                                    .kv_heads = 8,
                                    .ffn = 14336,
                                    .vocab = 128256,
                                    .rope_theta = 500000,
                                    .max_positions = 8192};
  static const DecoderConfig longer = [] {  // Llama 3.1: the same for 131072 positions
    auto config = llama3;
    config.rope_scaling = llama31;
    config.max_positions = 131072;
    return config;
  }();
  static const std::map<std::string, DecoderConfig> table{
      {"llama3-8b", llama3},
      {"llama3.1-8b", longer},
      {"llama3.2-1b",
       {.hidden = 2048,
        .layers = 16,
        .heads = 32,
        .kv_heads = 8,
        .ffn = 8192,
        .vocab = 128256,
        .head_dim = 64,
        .rope_theta = 500000,
        .rope_scaling = llama32,
        .tied = true}},
      {"qwen2-1.5b", qwen15},
      {"qwen2.5-1.5b", qwen15},
      {"llama-nano",
       {.hidden = 32, .layers = 2, .heads = 4, .kv_heads = 2, .ffn = 56, .vocab = 256, .rope_theta = 500000}},
      {"qwen2-nano",
       {.family = "qwen2",
        .hidden = 32,
        .layers = 2,
        .heads = 4,
        .kv_heads = 2,
        .ffn = 56,
        .vocab = 256,
        .norm_eps = 1e-6,
        .rope_theta = 1e6,
        .tied = true,
        .qkv_bias = true}},
  };
  return table;
}

const std::map<std::string, DitConfig>& dits() {
  static const std::map<std::string, DitConfig> table{
      {"dit-s", {.hidden = 384, .layers = 12, .heads = 6}},
      {"dit-b", {.hidden = 768, .layers = 12, .heads = 12}},
      {"dit-l", {.hidden = 1024, .layers = 24, .heads = 16}},
      {"dit-xl", {.hidden = 1152, .layers = 28, .heads = 16}},
      {"dit-nano", {.hidden = 32, .layers = 2, .heads = 4, .image = 16, .patch = 4, .classes = 10}},
  };
  return table;
}

const std::map<std::string, LinearStackConfig>& stacks() {
  static const std::map<std::string, LinearStackConfig> table{{"linear", {}},
                                                              {"linear-nano", {.width = 24, .depth = 3}}};
  return table;
}

void replace(int64_t& value, int64_t override_value) {
  if (override_value > 0) value = override_value;
}

// What a name stands for, with its sizes overridden.
using AnyConfig = std::variant<DecoderConfig, DitConfig, LinearStackConfig>;

void refuse_dit_choices(const SizeOverrides& s) {
  SHADE_REQUIRE(s.positions == nn::Positions::automatic && !s.learn_sigma,
                "--positions and --learn-sigma are for DiT models; drop them");
  SHADE_REQUIRE(s.in_channels == 0, "--in-channels is for DiT models; drop it");
}

AnyConfig resized(DecoderConfig c, const SizeOverrides& s) {
  refuse_dit_choices(s);
  if (s.hidden_dim > 0 || s.num_heads > 0) c.head_dim = 0;
  replace(c.hidden, s.hidden_dim);
  replace(c.layers, s.num_layers);
  replace(c.heads, s.num_heads);
  replace(c.kv_heads, s.num_kv_heads);
  replace(c.ffn, s.ffn_dim);
  replace(c.vocab, s.vocab_size);
  replace(c.classes, s.num_classes);
  c.classes_stated = c.classes_stated || s.num_classes > 0;
  return c;
}

AnyConfig resized(DitConfig c, const SizeOverrides& s) {
  replace(c.hidden, s.hidden_dim);
  replace(c.layers, s.num_layers);
  replace(c.heads, s.num_heads);
  replace(c.image, s.image_size);
  replace(c.patch, s.patch_size);
  replace(c.channels, s.in_channels);
  replace(c.classes, s.num_classes);
  if (s.positions != nn::Positions::automatic) c.positions = s.positions;
  c.learn_sigma = c.learn_sigma || s.learn_sigma;
  return c;
}

AnyConfig resized(LinearStackConfig c, const SizeOverrides& s) {
  refuse_dit_choices(s);
  replace(c.width, s.hidden_dim);
  replace(c.depth, s.num_layers);
  return c;
}

AnyConfig from_folder(const std::filesystem::path& folder, const SizeOverrides& s) {
  const auto file = folder / "config.json";
  const auto json = read_json(file);
  if (json.contains("patch_size")) return resized(DitConfig::from_json(json, file.string()), s);
  if (json.contains("model_type") && json["model_type"] == "linear")
    return resized(LinearStackConfig::from_json(json, file.string()), s);
  return resized(DecoderConfig::from_hf(json, file.string()), s);
}

bool is_size(const std::string& name) {
  return decoders().contains(name) || stacks().contains(name) || dits().contains(name.substr(0, name.find('/')));
}

// The name of a size in lower case (DiT-XL/2 is dit-xl/2), a folder, or the name as it is.
std::string own_name(const std::string& name) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (is_size(lower)) return lower;
  if (std::filesystem::exists(std::filesystem::path(name) / "config.json")) return name;
  if (const auto copy = hub_copy(name)) return copy->string();
  return hub_size(name).value_or(name);
}

AnyConfig find(const std::string& given, const SizeOverrides& sizes) {
  const auto name = own_name(given);
  if (const auto found = decoders().find(name); found != decoders().end()) return resized(found->second, sizes);
  if (const auto found = stacks().find(name); found != stacks().end()) return resized(found->second, sizes);
  const auto slash = name.find('/');
  if (const auto found = dits().find(name.substr(0, slash)); found != dits().end()) {
    auto config = found->second;
    if (slash != std::string::npos) {
      const auto patch = parse_integer(name.substr(slash + 1));
      SHADE_REQUIRE(patch && *patch > 0, "model '", name, "': expected a patch size after the slash, e.g. dit-xl/2");
      config.patch = *patch;
    }
    return resized(config, sizes);
  }
  if (const auto folder = model_folder(name)) return from_folder(*folder, sizes);
  const auto names = model_names();
  if (is_hub_name(name)) {
    std::vector<std::string> known;
    for (const auto& [hub, size] : kHubModels) known.emplace_back(hub);
    throw UsageError(text("model '", name, "': ", without_copy(name),
                          ". Without a copy these are known by their sizes: ", join(known, ", "), " and the names ",
                          join(names, ", "), suggestion(name, known)));
  }
  throw UsageError(text("model '", name, "' is neither known nor a folder with a config.json; known are ",
                        join(names, ", "), suggestion(name, names)));
}

std::unique_ptr<Model> build(const DecoderConfig& c, const ModelOptions& options) {
  return std::make_unique<Decoder>(c, options);
}
std::unique_ptr<Model> build(const DitConfig& c, const ModelOptions& options) {
  return std::make_unique<Dit>(c, options);
}
std::unique_ptr<Model> build(const LinearStackConfig& c, const ModelOptions& options) {
  return std::make_unique<LinearStack>(c, options);
}

int64_t& blocks(DecoderConfig& c) { return c.layers; }
int64_t& blocks(DitConfig& c) { return c.layers; }
int64_t& blocks(LinearStackConfig& c) { return c.depth; }

Json json_of(const DecoderConfig& c) { return c.to_hf(); }
Json json_of(const DitConfig& c) { return c.to_json(); }
Json json_of(const LinearStackConfig& c) { return c.to_json(); }

std::string sizes_of(const DecoderConfig& c) { return text(c.family, " ", c.hidden, " x ", c.layers); }
std::string sizes_of(const DitConfig& c) { return text("dit ", c.hidden, " x ", c.layers); }
std::string sizes_of(const LinearStackConfig& c) { return text("linear ", c.width, " x ", c.depth); }

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

void SizeOverrides::declare(Fields& fields) {
  const auto add = [&](const char* key, int64_t& value, const char* flag, const char* help) {
    fields.add(key, value, {.help = text(help, "; 0: the model's own"), .min = 0, .flags = {flag}});
  };
  add("hidden_dim", hidden_dim, "--hidden-dim", "width of the model");
  add("num_layers", num_layers, "--num-layers", "number of blocks");
  add("num_heads", num_heads, "--num-heads", "attention heads");
  add("num_kv_heads", num_kv_heads, "--num-kv-heads", "key-value heads");
  add("ffn_dim", ffn_dim, "--ffn-dim", "inner width of the feed-forward");
  add("vocab_size", vocab_size, "--vocab-size", "vocabulary");
  add("image_size", image_size, "--image-size", "side of the image in pixels");
  add("patch_size", patch_size, "--patch-size", "side of a patch in pixels");
  add("in_channels", in_channels, "--in-channels", "DiT: channels of the image");
  add("num_classes", num_classes, "--num-classes",
      "classes; of a text classifier only if neither --classes nor the data says");
  fields.add("positions", positions,
             {.help = "DiT: learned vectors, or fixed sines and cosines as in published checkpoints; auto: the model's "
                      "own, learned unless its config.json says otherwise",
              .flags = {"--positions"}});
  fields.add("learn_sigma", learn_sigma,
             {.help = "DiT: predict a variance too, trained by the variational bound, as in published checkpoints",
              .flags = {"--learn-sigma"}});
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, config] : decoders()) names.push_back(name);
  for (const auto& [name, config] : dits()) names.push_back(name);
  for (const auto& [name, config] : stacks()) names.push_back(name);
  return names;
}

std::optional<std::filesystem::path> model_folder(const std::string& name) {
  const auto own = own_name(name);
  if (is_size(own) || !std::filesystem::exists(std::filesystem::path(own) / "config.json")) return std::nullopt;
  return own;
}

std::string describe_hub_name(const std::string& name) {
  const auto own = own_name(name);
  if (own == name || !is_hub_name(name) || (is_size(own) && hub_size(name) != own)) return {};
  return is_size(own) ? text(without_copy(name), ". It stands for the sizes of ", own, ", with random weights")
                      : text(name, " is read from ", own);
}

Json config_in(const std::filesystem::path& folder) {
  return std::visit([](const auto& config) { return build(config, {})->config_json(); }, from_folder(folder, {}));
}

std::vector<std::string> not_trained_with(const std::filesystem::path& folder) {
  const auto file = folder / "config.json";
  const auto json = read_json(file);
  return not_trained_with(ConfigFile(json, file.string()));
}

std::unique_ptr<Model> make_model(const std::string& name, const SizeOverrides& sizes, const ModelOptions& options) {
  return std::visit([&](const auto& config) { return build(config, options); }, find(name, sizes));
}

std::string model_title(const std::string& name, const SizeOverrides& sizes) {
  const auto own = find(name, {}), used = find(name, sizes);
  const auto words = std::visit([](const auto& config) { return sizes_of(config); }, used);
  if (std::holds_alternative<LinearStackConfig>(used)) return words;
  const auto json = [](const auto& config) { return json_of(config); };
  const auto called = model_folder(name) ? (std::filesystem::path(name) / "").parent_path().filename().string() : name;
  return std::visit(json, own) == std::visit(json, used) ? called : text(words, ", shape of ", called);
}

ModelSize size_of(const std::string& name, const SizeOverrides& sizes, const ModelOptions& options) {
  const auto count = [&](auto config) {
    config.check();
    const auto all = std::exchange(blocks(config), 1);
    const auto one = build(config, options);
    blocks(config) = 2;
    const auto two = build(config, options);
    const auto of = [&](int64_t (nn::Parameters::*number)() const) {
      return extrapolated((one->parameters().*number)(), (two->parameters().*number)(), all);
    };
    return ModelSize{of(&nn::Parameters::count), of(&nn::Parameters::count_trainable)};
  };
  return std::visit(count, find(name, sizes));
}

}  // namespace shade::models
