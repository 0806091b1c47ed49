#include "tests/models/golden.h"

#include <ATen/ATen.h>

#include "shade/models/registry.h"
#include "shade/models/weights.h"
#include "tests/support/process.h"

namespace shade::test {

Golden::Golden(const std::string& name)
    : folder_(std::filesystem::path(source_root()) / "tests/golden" / name), case_(folder_ / "case.safetensors") {}

std::unique_ptr<models::Model> Golden::model(const models::ModelOptions& options, at::ScalarType type) const {
  auto model = models::make_model(folder_.string(), {}, options);
  models::load_weights(model->parameters(), folder_ / "model.safetensors", type);
  return model;
}

at::Tensor Golden::tensor(const std::string& name) const { return case_.tensor(name).clone(); }

nn::Batch Golden::batch(at::ScalarType type) const {
  nn::Batch batch;
  batch.labels = tensor("labels");
  if (has("input_ids")) {
    batch.ids_BT = tensor("input_ids");
    batch.mask_BT = tensor("attention_mask");
  } else {
    batch.images_BCHW = tensor("images").to(type);
    batch.noise_BCHW = tensor("noise").to(type);
    batch.timesteps_B = tensor("timesteps");
  }
  return batch;
}

std::vector<std::string> golden_names() {
  return {"llama_lm",
          "llama_lm_rope_llama3",
          "llama_lm_tied",
          "llama_lm_bias",
          "llama_mqa",
          "qwen2_lm",
          "qwen2_lm_tied",
          "llama_classify",
          "qwen2_classify_tied_config",
          "mistral_lm",
          "mistral_classify",
          "qwen3_lm",
          "qwen3_lm_tied_bias",
          "qwen3_classify_tied_config",
          "dit",
          "dit_rect",
          "dit_published"};
}

double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  const auto x = a.to(at::kDouble), y = b.to(at::kDouble);
  return (x - y).abs().max().item<double>() / std::max(1e-300, y.abs().max().item<double>());
}

}  // namespace shade::test
