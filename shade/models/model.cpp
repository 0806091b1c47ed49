#include "shade/models/model.h"

#include "shade/base/error.h"
#include "shade/base/json.h"

namespace shade::models {

// The bindings name every field, so that a new one doesn't compile before it is here.
std::string to_json(const ModelOptions& options) {
  const auto& [task, attention, checkpointing, lora, lora_targets, loss_mean] = options;
  Json out{{"task", to_string(task)},
           {"attention", to_string(attention)},
           {"checkpointing", to_string(checkpointing)},
           {"loss_mean", to_string(loss_mean)}};
  if (!lora) return out.dump();
  const auto& [rank, alpha] = *lora;
  out["lora"] = {{"rank", rank}, {"alpha", alpha}, {"targets", lora_targets}};
  return out.dump();
}

void TextTraits::require_full_attention(int64_t tokens) const {
  SHADE_REQUIRE(window == 0 || tokens <= window, "--seq-length ", tokens, " is longer than the sliding window of ",
                window, " tokens (sliding_window in config.json), which is not supported; choose --seq-length ", window,
                " or less");
}

at::Tensor Model::outputs(const nn::Batch&) {
  throw UsageError(text(describe(), " has no outputs to look at; override Model::outputs"));
}

at::Tensor Model::next_logits(const at::Tensor&, nn::KvCache&) {
  throw UsageError(text(describe(), " generates no text; expected a language model"));
}

nn::Batch Model::synthetic(const BatchShape&, uint64_t, at::ScalarType) const {
  throw UsageError(text(describe(), " makes no synthetic data; override Model::synthetic, or bring records"));
}

int64_t Model::positions(const nn::Weight& weight, const BatchShape& shape) const {
  return weight.shape().size() < 2 ? 0 : tokens(shape);
}

int64_t Model::tokens(const BatchShape& shape) const { return text_traits() ? shape.seq_length : 1; }

std::string Model::describe() const {
  return text("a model with ", parameters_.count(), " parameters in ", parameters_.units().size(), " units");
}

std::string Model::config_json() const {
  Json weights = Json::object();
  for (const auto& weight : parameters_.weights()) weights[weight.name()] = weight.shape();
  return Json{{"model_type", "own"}, {"weights", weights}}.dump();
}

}  // namespace shade::models
