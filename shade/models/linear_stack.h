// Square linear layers one after another: the smallest model that shows what sharding does.
#pragma once

#include <deque>
#include <map>

#include "shade/base/json.h"
#include "shade/models/model.h"
#include "shade/models/sizes.h"
#include "shade/nn/unit.h"

namespace shade::models {

class LinearStack;

struct LinearStackConfig {
  int64_t width = 1024, depth = 8;
  bool bias = true;

  void check(const std::string& source = "") const;  // throws UsageError naming the field
  static LinearStackConfig from_json(const Json& json, const std::string& source);
  Json to_json() const;

  // For the registry.
  using Built = LinearStack;
  static const std::map<std::string, LinearStackConfig>& named();
  static bool describes(const Json& config);
  void resize(const SizeOverrides& s);
  int64_t& blocks() { return depth; }
  std::string sizes() const { return text("linear ", width, " x ", depth); }
  static constexpr bool kCalledBySizes = true;  // "linear" alone says nothing
};

class LinearStack : public Model {
 public:
  LinearStack(LinearStackConfig config, const ModelOptions& options);

  at::Tensor losses(const nn::Batch& batch) override;
  at::Tensor outputs(const nn::Batch& batch) override;
  nn::Batch synthetic(const BatchShape& shape, uint64_t seed, at::ScalarType type) const override;
  std::string describe() const override;
  std::string config_json() const override { return config_.to_json().dump(); }
  std::string settings() const override { return to_json(options_); }

 private:
  at::Tensor predict(const nn::Batch& batch);

  LinearStackConfig config_;
  ModelOptions options_;
  std::deque<nn::Linear> layers_;
};

}  // namespace shade::models
