#include "shade/models/linear_stack.h"

#include <ATen/ATen.h>

#include <cmath>

#include "shade/base/error.h"
#include "shade/models/config_file.h"
#include "shade/nn/losses.h"

namespace shade::models {

void LinearStackConfig::check(const std::string& source) const {
  require_count(source, {"width", "--hidden-dim", width, kMostWidth});
  require_count(source, {"depth", "--num-layers", depth, kMostLayers});
}

LinearStackConfig LinearStackConfig::from_json(const Json& json, const std::string& source) {
  const ConfigFile file(json, source);
  const LinearStackConfig c{
      .width = file.need<int64_t>("width"), .depth = file.need<int64_t>("depth"), .bias = file.need<bool>("bias")};
  c.check(source);
  return c;
}

Json LinearStackConfig::to_json() const {
  return {{"model_type", "linear"}, {"width", width}, {"depth", depth}, {"bias", bias}};
}

const std::map<std::string, LinearStackConfig>& LinearStackConfig::named() {
  static const std::map<std::string, LinearStackConfig> table{{"linear", {}},
                                                              {"linear-nano", {.width = 24, .depth = 3}}};
  return table;
}

bool LinearStackConfig::describes(const Json& config) {
  return config.contains("model_type") && config["model_type"] == "linear";
}

void LinearStackConfig::resize(const SizeOverrides& s) {
  refuse_dit_choices(s);
  replace(width, s.hidden_dim);
  replace(depth, s.num_layers);
}

LinearStack::LinearStack(LinearStackConfig config, const ModelOptions& options) : config_(config), options_(options) {
  config_.check();
  SHADE_REQUIRE(options_.task == Task::automatic || options_.task == Task::regress,
                "the linear stack is trained with --task "
                "regress, not ",
                to_string(options_.task));
  SHADE_REQUIRE(!options_.lora, "LoRA adapters are for language models; a linear stack is trained whole");
  const auto init = nn::Init::normal(1 / std::sqrt(static_cast<double>(config_.width)));
  for (int64_t i = 0; i < config_.depth; ++i) {
    parameters_.begin_unit(text("layers.", i));
    layers_.emplace_back(
        parameters_, text("layers.", i),
        nn::Linear::Options{.in = config_.width, .out = config_.width, .bias = config_.bias, .init = init});
  }
}

at::Tensor LinearStack::predict(const nn::Batch& batch) {
  auto x = batch.x_BD;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const auto body = [this, i](const nn::Tensors& in) { return layers_[i](in[0]); };
    x = nn::run_unit(parameters_.wiring, static_cast<nn::UnitId>(i), body, {x},
                     options_.checkpointing == Checkpointing::block);
  }
  return x;
}

at::Tensor LinearStack::losses(const nn::Batch& batch) { return nn::squared_losses(predict(batch), batch.y_BD); }

at::Tensor LinearStack::outputs(const nn::Batch& batch) {
  const at::NoGradGuard no_graph;
  return predict(batch);
}

nn::Batch LinearStack::synthetic(const BatchShape& shape, uint64_t seed, at::ScalarType type) const {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  nn::Batch batch;
  batch.x_BD = at::randn({shape.samples, config_.width}, generator, at::kFloat).to(type);
  batch.y_BD = at::randn({shape.samples, config_.width}, generator, at::kFloat).to(type);
  return batch;
}

std::string LinearStack::describe() const { return text("linear ", config_.width, " x ", config_.depth, " layers"); }

}  // namespace shade::models
