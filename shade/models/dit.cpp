// Units: the embeddings, every block, the final layer.
#include "shade/models/dit.h"

#include <ATen/ATen.h>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/models/config_file.h"
#include "shade/nn/activated_linear.h"
#include "shade/nn/activations.h"
#include "shade/nn/diffusion.h"
#include "shade/nn/losses.h"
#include "shade/nn/norm.h"

namespace shade::models {
namespace {

constexpr double kEps = 1e-6;

constexpr int64_t kMostImage = int64_t{1} << 16, kMostPatch = int64_t{1} << 12, kMostChannels = 1024;
constexpr double kMostRatio = 1024;

constexpr nn::Init kSmall{nn::Init::Kind::normal, 0.02};  // timesteps, labels and learned positions

// As published: Xavier where nothing else is said, over the whole of a fused weight.
nn::Linear::Options linear(int64_t in, int64_t out) {
  return {.in = in, .out = out, .bias = true, .init = nn::Init::xavier(in, out)};
}
nn::Linear::Options linear(int64_t in, int64_t out, nn::Init init) {
  return {.in = in, .out = out, .bias = true, .init = init};
}

}  // namespace

const std::map<std::string, DitConfig>& DitConfig::named() {
  static const std::map<std::string, DitConfig> table{
      {"dit-s", {.hidden = 384, .layers = 12, .heads = 6}},
      {"dit-b", {.hidden = 768, .layers = 12, .heads = 12}},
      {"dit-l", {.hidden = 1024, .layers = 24, .heads = 16}},
      {"dit-xl", {.hidden = 1152, .layers = 28, .heads = 16}},
      {"dit-nano", {.hidden = 32, .layers = 2, .heads = 4, .image = 16, .patch = 4, .classes = 10}},
  };
  return table;
}

void DitConfig::resize(const SizeOverrides& s) {
  replace(hidden, s.hidden_dim);
  replace(layers, s.num_layers);
  replace(heads, s.num_heads);
  replace(image, s.image_size);
  replace(patch, s.patch_size);
  replace(channels, s.in_channels);
  replace(classes, s.num_classes);
  if (s.positions != nn::Positions::automatic) positions = s.positions;
  learn_sigma = learn_sigma || s.learn_sigma;
}

void DitConfig::vary(const std::string& word, const std::string& name) {
  const auto size = parse_integer(word);
  SHADE_REQUIRE(size && *size > 0, "model '", name, "': expected a patch size after the slash, e.g. dit-xl/2");
  patch = *size;
}

void DitConfig::check(const std::string& source) const {
  for (const auto& count : {Count{"hidden_size", "--hidden-dim", hidden, kMostWidth},
                            {"depth", "--num-layers", layers, kMostLayers},
                            {"num_heads", "--num-heads", heads, kMostWidth},
                            {"patch_size", "--patch-size", patch, kMostPatch},
                            {"image_size", "--image-size", image, kMostImage},
                            {"in_channels", "", channels, kMostChannels},
                            {"num_classes", "--num-classes", classes, kMostRows},
                            {"frequency_dim", "", frequency_dim, kMostWidth}})
    require_count(source, count);
  SHADE_REQUIRE(hidden % heads == 0, where(source), "hidden size ", hidden, " doesn't divide by ", heads,
                " heads; choose a multiple of their number");
  SHADE_REQUIRE(image % patch == 0, where(source), "an image of ", image, " doesn't divide into patches of ", patch);
  SHADE_REQUIRE(frequency_dim % 2 == 0, where(source), "frequency_dim is ", frequency_dim, "; expected an even number");
  require_positive(source, "mlp_ratio", mlp_ratio);
  SHADE_REQUIRE(mlp_ratio <= kMostRatio && mlp() >= 1, where(source), "mlp_ratio is ", mlp_ratio, "; expected up to ",
                kMostRatio, ", and a feed-forward of at least one column");
  SHADE_REQUIRE(label_dropout >= 0 && label_dropout <= 1, where(source), "class_dropout_prob is ", label_dropout,
                "; expected 0 to 1");
  SHADE_REQUIRE(positions != nn::Positions::automatic, where(source), "positions is auto; expected learned or sincos");
  SHADE_REQUIRE(positions != nn::Positions::sincos || hidden % 4 == 0, where(source), "hidden size ", hidden,
                " doesn't divide by 4, as sincos positions need it; choose learned ones or another size");
}

namespace {

nn::Positions positions_in(const ConfigFile& file, nn::Positions otherwise) try {
  return parse_name<nn::Positions>(file.get("positions", to_string(otherwise)));
} catch (const UsageError& fault) {
  throw UsageError(text(where(file.source()), "positions: ", fault.what()));
}

}  // namespace

DitConfig DitConfig::from_json(const Json& json, const std::string& source) {
  const ConfigFile file(json, source);
  DitConfig c;
  c.hidden = file.need<int64_t>("hidden_size");
  c.layers = file.need<int64_t>("depth");
  c.heads = file.need<int64_t>("num_heads");
  c.patch = file.need<int64_t>("patch_size");
  c.image = file.need<int64_t>("image_size");
  c.channels = file.get("in_channels", c.channels);
  c.classes = file.get("num_classes", c.classes);
  c.mlp_ratio = file.get("mlp_ratio", c.mlp_ratio);
  c.frequency_dim = file.get("frequency_dim", c.frequency_dim);
  c.label_dropout = file.get("class_dropout_prob", c.label_dropout);
  c.positions = positions_in(file, c.positions);
  c.learn_sigma = file.get("learn_sigma", c.learn_sigma);
  c.class_names = file.class_names();
  c.check(source);
  SHADE_REQUIRE(std::ssize(c.class_names) <= c.classes, source, ": id2label has ", c.class_names.size(),
                " classes, and num_classes is ", c.classes);
  return c;
}

Json DitConfig::to_json() const {
  return {{"hidden_size", hidden},
          {"depth", layers},
          {"num_heads", heads},
          {"patch_size", patch},
          {"image_size", image},
          {"in_channels", channels},
          {"num_classes", classes},
          {"mlp_ratio", mlp_ratio},
          {"frequency_dim", frequency_dim},
          {"class_dropout_prob", label_dropout},
          {"positions", to_string(positions)},
          {"learn_sigma", learn_sigma}};
}

// adaLN-Zero: the modulations and the last linear begin at zero, so that every block begins as the identity.
Dit::Block::Block(nn::Parameters& p, const DitConfig& c, int64_t index)
    : unit(p.begin_unit(text("blocks.", index))),
      qkv(p, text("blocks.", index, ".attn.qkv"), linear(c.hidden, 3 * c.hidden)),
      proj(p, text("blocks.", index, ".attn.proj"), linear(c.hidden, c.hidden)),
      fc1(p, text("blocks.", index, ".mlp.fc1"), linear(c.hidden, c.mlp())),
      fc2(p, text("blocks.", index, ".mlp.fc2"), linear(c.mlp(), c.hidden)),
      modulation(p, text("blocks.", index, ".adaLN_modulation.1"),
                 linear(c.hidden, 6 * c.hidden, nn::Init::constant(0))) {}

Dit::Dit(DitConfig config, const ModelOptions& options) : config_(config), options_(options) {
  config_.check();
  SHADE_REQUIRE(options_.task == Task::automatic || options_.task == Task::denoise,
                "a DiT is trained with --task denoise, not ", to_string(options_.task));
  SHADE_REQUIRE(!options_.lora, "LoRA adapters are for language models; a DiT is trained whole");
  auto& p = parameters_;
  embed_unit_ = p.begin_unit("embed");
  const auto of_patch = config_.patch * config_.patch * config_.channels;
  patches_.emplace(p, "x_embedder.proj",
                   nn::PatchEmbedding::Options{.channels = config_.channels,
                                               .patch = config_.patch,
                                               .width = config_.hidden,
                                               .init = nn::Init::xavier(of_patch, config_.hidden)});
  if (config_.positions == nn::Positions::sincos) {  // in files as published: a batch of one
    positions_.emplace(p, "pos_embed", std::vector{int64_t{1}, config_.tokens(), config_.hidden}, nn::Init::sincos());
    positions_->added().freeze();
  } else {
    positions_.emplace(p, "pos_embed", std::vector{config_.tokens(), config_.hidden}, kSmall);
  }
  time_in_.emplace(p, "t_embedder.mlp.0", linear(config_.frequency_dim, config_.hidden, kSmall));
  time_out_.emplace(p, "t_embedder.mlp.2", linear(config_.hidden, config_.hidden, kSmall));
  labels_.emplace(p, "y_embedder.embedding_table",
                  nn::Embedding::Options{.rows = config_.classes + 1, .width = config_.hidden, .init = kSmall});
  for (int64_t i = 0; i < config_.layers; ++i) blocks_.emplace_back(p, config_, i);
  final_unit_ = p.begin_unit("final");
  final_modulation_.emplace(p, "final_layer.adaLN_modulation.1",
                            linear(config_.hidden, 2 * config_.hidden, nn::Init::constant(0)));
  final_linear_.emplace(
      p, "final_layer.linear",
      linear(config_.hidden, config_.patch * config_.patch * config_.out_channels(), nn::Init::constant(0)));
}

at::Tensor Dit::run_block(const Block& block, const at::Tensor& x, const at::Tensor& condition) const {
  const auto b = x.size(0), t = x.size(1), d = config_.hidden / config_.heads;
  const auto m = block.modulation(condition).chunk(6, 1);  // shift, scale, gate of attention; the same of the MLP
  const auto qkv = block.qkv(nn::modulated_norm(x, m[0], m[1], kEps)).view({b, t, 3, config_.heads, d});
  const auto mixed =
      nn::attention(qkv.select(2, 0), qkv.select(2, 1), qkv.select(2, 2), {.kernel = options_.attention});
  const auto h = nn::gated_add(x, m[2], block.proj(mixed.reshape({b, t, config_.hidden})));
  return nn::gated_add(h, m[5], nn::gelu_linear(block.fc2, block.fc1(nn::modulated_norm(h, m[3], m[4], kEps))));
}

at::Tensor Dit::predict(const nn::Batch& batch) {
  const auto& wiring = parameters_.wiring;
  const auto start = nn::enter_unit(wiring, embed_unit_, {nn::anchor(batch.images_BCHW.device())})[0];
  auto x = (*positions_)((*patches_)(batch.images_BCHW, start));
  const auto wave = nn::timestep_sinusoid(batch.timesteps_B, config_.frequency_dim, x.scalar_type());
  const auto time = (*time_out_)(nn::silu_activation((*time_in_)(wave)));
  const auto label = (*labels_)(batch.labels.unsqueeze(1), start).squeeze(1);
  // The activation before every block's modulation is the same: made once.
  auto condition = nn::silu_activation(time + label);
  x = nn::leave_unit(wiring, embed_unit_, x);
  for (const auto& block : blocks_) {
    const auto body = [this, &block](const nn::Tensors& in) { return run_block(block, in[0], in[1]); };
    x = nn::run_unit(wiring, block.unit, body, {x, condition}, options_.checkpointing == Checkpointing::block);
  }
  const auto last = [this](const nn::Tensors& in) {
    const auto m = (*final_modulation_)(in[1]).chunk(2, 1);
    return (*final_linear_)(nn::modulated_norm(in[0], m[0], m[1], kEps));
  };
  x = nn::run_unit(wiring, final_unit_, last, {x, condition});
  return nn::unpatchify(x, config_.patch, config_.out_channels(), config_.image, config_.image);
}

at::Tensor Dit::losses(const nn::Batch& batch) {
  const auto predicted = predict(batch);
  if (!config_.learn_sigma) return nn::squared_losses(predicted, batch.noise_BCHW);
  const auto parts = predicted.chunk(2, 1);  // noise, variance
  return nn::squared_losses(parts[0], batch.noise_BCHW) + nn::variational_losses(parts[0], parts[1], batch);
}

at::Tensor Dit::outputs(const nn::Batch& batch) {
  const at::NoGradGuard no_graph;
  return predict(batch);
}

nn::Batch Dit::synthetic(const BatchShape& shape, uint64_t seed, at::ScalarType type) const {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  nn::Batch batch;
  const std::vector<int64_t> image{shape.samples, config_.channels, config_.image, config_.image};
  batch.images_BCHW = at::randn(image, generator, at::kFloat).to(type);
  batch.noise_BCHW = at::randn(image, generator, at::kFloat).to(type);
  batch.timesteps_B = at::randint(0, 1000, {shape.samples}, generator, at::kLong);
  const auto labels = at::randint(0, config_.classes, {shape.samples}, generator, at::kLong);
  batch.labels =
      shape.training ? nn::dropped_labels(labels, config_.classes, config_.label_dropout, generator) : labels;
  return batch;
}

int64_t Dit::positions(const nn::Weight& weight, const BatchShape&) const {
  const std::string_view name = weight.name();
  if (weight.shape().size() < 2 || name == "pos_embed" || name.starts_with("y_embedder")) return 0;
  const bool of_the_sample = name.starts_with("t_embedder") || name.find("adaLN_modulation") != name.npos;
  return of_the_sample ? 1 : config_.tokens();
}

double Dit::attention_flops(const BatchShape&) const {
  const auto t = static_cast<double>(config_.tokens());
  return 4 * static_cast<double>(config_.layers * config_.hidden) * t * t;
}

std::string Dit::describe() const {
  return text("dit ", config_.hidden, " x ", config_.layers, " layers, ", config_.heads, " heads, image ",
              config_.image, ", patch ", config_.patch, " (", config_.tokens(), " tokens)",
              config_.positions == nn::Positions::sincos ? ", sin-cos positions" : "",
              config_.learn_sigma ? ", learned sigma" : "");
}

}  // namespace shade::models
