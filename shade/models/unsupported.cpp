#include "shade/models/unsupported.h"

#include <algorithm>

namespace shade::models {
namespace {

constexpr const char* kDropouts[] = {"attention_dropout", "hidden_dropout", "resid_pdrop", "embd_pdrop",
                                     "classifier_dropout"};

void refuse_partial_rotation(const ConfigFile& file) {
  const auto share = file.get("partial_rotary_factor", 1.0);
  SHADE_REQUIRE(share == 1, file.source(), ": partial_rotary_factor is ", share, "; expected 1, or none");
}

}  // namespace

void refuse_unsupported(const ConfigFile& file) {
  const auto activation = file.get<std::string>("hidden_act", "silu");
  SHADE_REQUIRE(activation == "silu" || activation == "swish", file.source(), ": hidden_act '", activation,
                "' is not supported; expected silu");
  SHADE_REQUIRE(!file.has("quantization_config"), file.source(),
                ": quantization_config is set, and quantized weights are not supported; expected weights in fp32, bf16 "
                "or fp16");
  refuse_partial_rotation(file);
  for (const char* key : {"rope_parameters", "rope_scaling"})
    if (const auto rope = file.object(key)) refuse_partial_rotation(*rope);
}

int64_t stated_window(const ConfigFile& file) {
  if (file.is_null("sliding_window")) return 0;
  constexpr int64_t kWindow = 4096;  // transformers' default
  const auto window = file.get("sliding_window", kWindow);
  require_count(file.source(), {"sliding_window", "", window, kMostRows});
  return window;
}

int64_t sliding_window(const ConfigFile& file, int64_t layers) {
  if (!file.get("use_sliding_window", false)) return 0;
  constexpr int64_t kFirstLayer = 28;  // transformers' default
  const auto window = stated_window(file);
  const auto types = file.words("layer_types");
  const bool slides = types.empty() ? file.get("max_window_layers", kFirstLayer) < layers
                                    : std::find(types.begin(), types.end(), "sliding_attention") != types.end();
  return slides ? window : 0;
}

std::vector<std::string> not_trained_with(const ConfigFile& file) {
  std::vector<std::string> out;
  for (const char* key : kDropouts)
    if (const auto share = file.get(key, 0.0); share != 0) out.push_back(text(key, " ", share));
  const auto problem = file.get<std::string>("problem_type", "single_label_classification");
  if (problem != "single_label_classification") out.push_back(text("problem_type ", problem));
  return out;
}

}  // namespace shade::models
