// Units: embedding, every block, norm + head. With tied weights the head enters the embedding's unit as well.
#include "shade/models/decoder.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/models/config_file.h"
#include "shade/nn/activated_linear.h"
#include "shade/nn/activations.h"
#include "shade/nn/adapter.h"
#include "shade/nn/losses.h"

namespace shade::models {
namespace {

void check_numbers(const nn::LoraOptions& lora) {
  require_count("", {"lora_rank", "--lora-rank", lora.rank, kMostWidth});
  require_positive("", "lora_alpha (--lora-alpha)", lora.alpha);
}

// A misspelled target would leave its layers without an adapter, and say nothing.
void check_targets(const std::vector<std::string>& targets) {
  static const std::vector<std::string> kProjections{"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                                     "gate_proj", "up_proj", "down_proj"};
  SHADE_REQUIRE(!targets.empty(), "LoRA adapters have no target; set --lora-targets to some of ",
                join(kProjections, ", "));
  for (const auto& target : targets)
    SHADE_REQUIRE(std::find(kProjections.begin(), kProjections.end(), target) != kProjections.end(), "LoRA target '",
                  target, "' matches no linear layer", suggestion(target, kProjections), "; expected some of ",
                  join(kProjections, ", "));
}

std::optional<nn::LoraOptions> lora_for(const ModelOptions& options, const std::string& target) {
  const auto& names = options.lora_targets;
  return std::find(names.begin(), names.end(), target) != names.end() ? options.lora : std::nullopt;
}

std::optional<nn::RmsNorm> head_norm(nn::Parameters& p, const DecoderConfig& c, const std::string& name) {
  if (!c.head_norms) return std::nullopt;
  return nn::RmsNorm(p, name, c.head_size(), c.norm_eps);
}

}  // namespace

Decoder::Block::Block(nn::Parameters& p, const DecoderConfig& c, const ModelOptions& options, int64_t index)
    : unit(p.begin_unit(text("layers.", index))),
      attention_norm(p, text("model.layers.", index, ".input_layernorm"), c.hidden, c.norm_eps),
      q(p, text("model.layers.", index, ".self_attn.q_proj"),
        {.in = c.hidden, .out = c.heads * c.head_size(), .bias = c.qkv_bias, .init = nn::Init::normal(c.init_std)},
        lora_for(options, "q_proj")),
      k(p, text("model.layers.", index, ".self_attn.k_proj"),
        {.in = c.hidden, .out = c.kv_heads * c.head_size(), .bias = c.qkv_bias, .init = nn::Init::normal(c.init_std)},
        lora_for(options, "k_proj")),
      v(p, text("model.layers.", index, ".self_attn.v_proj"),
        {.in = c.hidden, .out = c.kv_heads * c.head_size(), .bias = c.qkv_bias, .init = nn::Init::normal(c.init_std)},
        lora_for(options, "v_proj")),
      o(p, text("model.layers.", index, ".self_attn.o_proj"),
        {.in = c.heads * c.head_size(), .out = c.hidden, .bias = c.o_bias, .init = nn::Init::normal(c.init_std)},
        lora_for(options, "o_proj")),
      q_norm(head_norm(p, c, text("model.layers.", index, ".self_attn.q_norm"))),
      k_norm(head_norm(p, c, text("model.layers.", index, ".self_attn.k_norm"))),
      mlp_norm(p, text("model.layers.", index, ".post_attention_layernorm"), c.hidden, c.norm_eps),
      gate(p, text("model.layers.", index, ".mlp.gate_proj"),
           {.in = c.hidden, .out = c.ffn, .bias = c.mlp_bias, .init = nn::Init::normal(c.init_std)},
           lora_for(options, "gate_proj")),
      up(p, text("model.layers.", index, ".mlp.up_proj"),
         {.in = c.hidden, .out = c.ffn, .bias = c.mlp_bias, .init = nn::Init::normal(c.init_std)},
         lora_for(options, "up_proj")),
      down(p, text("model.layers.", index, ".mlp.down_proj"),
           {.in = c.ffn, .out = c.hidden, .bias = c.mlp_bias, .init = nn::Init::normal(c.init_std)},
           lora_for(options, "down_proj")) {}

Decoder::Decoder(DecoderConfig config, const ModelOptions& options) : config_(std::move(config)), options_(options) {
  config_.check();
  if (options_.task == Task::automatic) options_.task = config_.classifier ? Task::classify : Task::lm;
  SHADE_REQUIRE(options_.task == Task::classify || options_.task == Task::lm,
                "a language model is trained with --task "
                "classify or lm, not ",
                to_string(options_.task));
  config_.classifier = options_.task == Task::classify;
  if (options_.lora) check_numbers(*options_.lora);
  if (options_.lora) check_targets(options_.lora_targets);
  auto& p = parameters_;
  const auto init = nn::Init::normal(config_.init_std);
  embed_unit_ = p.begin_unit("embed");
  embed_.emplace(
      p, "model.embed_tokens",
      nn::Embedding::Options{.rows = config_.vocab, .width = config_.hidden, .padding = config_.padding, .init = init});
  if (options_.task != Task::lm || !config_.tied) p.only_looked_up(embed_unit_);
  for (int64_t i = 0; i < config_.layers; ++i) blocks_.emplace_back(p, config_, options_, i);
  head_unit_ = p.begin_unit("head");
  norm_.emplace(p, "model.norm", config_.hidden, config_.norm_eps);
  if (options_.task == Task::classify) {
    head_.score.emplace(p, "score", nn::Linear::Options{.in = config_.hidden, .out = config_.classes, .init = init});
    head_.score->weight().mark_task_head();
  } else if (!config_.tied) {
    head_.lm_head.emplace(p, "lm_head", nn::Linear::Options{.in = config_.hidden, .out = config_.vocab, .init = init});
  }
  if (options_.lora) {  // adapters and the new classification head are trained, everything else is frozen
    for (auto& weight : p.weights())
      if (!nn::is_adapter(weight.name()) && !weight.task_head()) weight.freeze();
  }
}

at::Tensor Decoder::run_block(size_t index, const at::Tensor& x, const Walk& walk) const {
  const auto& block = blocks_[index];
  const auto b = x.size(0), t = x.size(1), d = config_.head_size();
  const auto y = block.attention_norm(x);
  const auto rotated = [&](const nn::Projection& projection, const std::optional<nn::RmsNorm>& norm, int64_t heads) {
    const auto x_BTHd = projection(y).view({b, t, heads, d});
    return nn::rotate(norm ? (*norm)(x_BTHd) : x_BTHd, walk.rope);
  };
  const auto q = rotated(block.q, block.q_norm, config_.heads);
  auto k = rotated(block.k, block.k_norm, config_.kv_heads);
  auto v = block.v(y).view({b, t, config_.kv_heads, d});
  if (walk.past != nullptr) std::tie(k, v) = walk.past->extend(index, k, v);
  const auto mixed = nn::attention(q, k, v, {.causal = true, .kernel = options_.attention, .runs = walk.runs});
  const auto h = x + block.o(mixed.reshape({b, t, config_.heads * d}));
  const auto z = block.mlp_norm(h);
  const auto gate = block.gate(z), up = block.up(z);
  return h + (block.down.adapted() ? block.down(nn::silu_activation(gate) * up)
                                   : nn::swiglu_linear(block.down.base(), gate, up));
}

at::Tensor Decoder::hidden(const nn::Batch& batch, nn::KvCache* past) {
  const auto first = past != nullptr ? past->length() : 0, positions = batch.ids_BT.size(1);
  text_traits()->require_full_attention(first + positions);
  const auto& wiring = parameters_.wiring;
  const auto start = nn::enter_unit(wiring, embed_unit_, {nn::anchor(batch.ids_BT.device())})[0];
  auto x = nn::leave_unit(wiring, embed_unit_, (*embed_)(batch.ids_BT, start));
  const Walk walk{.rope = nn::rope_table(
                      {.head_dim = config_.head_size(), .theta = config_.rope_theta, .scaling = config_.rope_scaling},
                      positions, x.options(), first),
                  // Rotary positions are relative, so a document may begin at any of them.
                  .runs = batch.documents_BT.defined() ? nn::runs_of(batch.documents_BT) : std::vector<int64_t>(),
                  .past = past};
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const auto body = [this, i, walk](const nn::Tensors& in) { return run_block(i, in[0], walk); };
    x = nn::run_unit(wiring, blocks_[i].unit, body, {x}, options_.checkpointing == Checkpointing::block);
  }
  if (past != nullptr) past->advance(positions);
  return x;
}

const nn::Weight& Decoder::lm_weight() const { return head_.lm_head ? head_.lm_head->weight() : embed_->table(); }

at::Tensor Decoder::class_logits(const at::Tensor& h_BTD, const nn::Batch& batch) const {
  const auto last =
      batch.mask_BT.defined() ? nn::last_position(h_BTD, batch.mask_BT) : h_BTD.select(1, h_BTD.size(1) - 1);
  return (*head_.score)((*norm_)(last));
}

at::Tensor Decoder::in_head(const at::Tensor& h_BTD, const std::function<at::Tensor(const at::Tensor&)>& body) const {
  const auto& wiring = parameters_.wiring;
  auto h = tied_head() ? nn::enter_unit(wiring, embed_unit_, {h_BTD})[0] : h_BTD;
  h = nn::enter_unit(wiring, head_unit_, {h})[0];
  const auto out = nn::leave_unit(wiring, head_unit_, body(h));
  return tied_head() ? nn::leave_unit(wiring, embed_unit_, out) : out;
}

at::Tensor Decoder::losses(const nn::Batch& batch) {
  return in_head(hidden(batch), [&](const at::Tensor& h) {
    if (options_.task == Task::classify) return nn::class_losses(class_logits(h, batch), batch.labels);
    return nn::lm_losses((*norm_)(h), lm_weight(), parameters_.wiring, targets(batch),
                         {.mean = !sums_tokens(), .looked_up_BT = config_.tied ? batch.ids_BT : at::Tensor()});
  });
}

at::Tensor Decoder::targets(const nn::Batch& batch) {
  return batch.documents_BT.defined() ? batch.labels : nn::shifted_labels(batch.labels);
}

at::Tensor Decoder::loss_tokens(const nn::Batch& batch) const {
  if (options_.task != Task::lm) return {};
  return nn::counted_tokens(targets(batch));
}

bool Decoder::sums_tokens() const { return options_.task == Task::lm && options_.loss_mean == LossMean::token; }

at::Tensor Decoder::outputs(const nn::Batch& batch) {
  const at::NoGradGuard no_graph;
  return in_head(hidden(batch), [&](const at::Tensor& h) {
    return options_.task == Task::classify ? class_logits(h, batch) : at::linear((*norm_)(h), lm_weight().value());
  });
}

at::Tensor Decoder::next_logits(const at::Tensor& ids_BT, nn::KvCache& past) {
  const at::NoGradGuard no_graph;
  if (options_.task != Task::lm) return Model::next_logits(ids_BT, past);
  return in_head(hidden({.ids_BT = ids_BT}, &past), [&](const at::Tensor& h) {
    return at::linear((*norm_)(h.select(1, h.size(1) - 1)), lm_weight().value());
  });
}

nn::Batch Decoder::synthetic(const BatchShape& shape, uint64_t seed, at::ScalarType) const {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  nn::Batch batch;
  batch.ids_BT = at::randint(0, config_.vocab, {shape.samples, shape.seq_length}, generator, at::kLong);
  batch.mask_BT = at::ones({shape.samples, shape.seq_length}, at::kLong);
  batch.labels = options_.task == Task::classify
                     ? at::randint(0, config_.classes, {shape.samples}, generator, at::kLong)
                     : batch.ids_BT.clone();
  return batch;
}

std::optional<TextTraits> Decoder::text_traits() const {
  return TextTraits{.vocabulary = config_.vocab,
                    .max_positions = config_.max_positions,
                    .window = config_.window,
                    .classifier = config_.classifier,
                    .classes = config_.classes,
                    .classes_stated = config_.classes_stated,
                    .class_names = config_.class_names};
}

int64_t Decoder::positions(const nn::Weight& weight, const BatchShape& shape) const {
  if (weight.shape().size() < 2) return 0;
  if (&weight == &embed_->table()) return config_.tied && options_.task == Task::lm ? shape.seq_length : 0;
  return head_.score && &weight == &head_.score->weight() ? 1 : shape.seq_length;  // classes are read at one position
}

double Decoder::attention_flops(const BatchShape& shape) const {
  const auto t = static_cast<double>(shape.seq_length);
  return 4 * static_cast<double>(config_.layers * config_.heads * config_.head_size()) * t * t;
}

std::string Decoder::describe() const {
  return text(config_.family, " ", config_.hidden, " x ", config_.layers, " layers, ", config_.heads, "/",
              config_.kv_heads, " heads, ffn ", config_.ffn, ", vocab ", config_.vocab, ", ", to_string(options_.task));
}

}  // namespace shade::models
