// LoRA adapters as PEFT writes them, put on their base model.
#pragma once

#include <filesystem>
#include <memory>

#include "shade/base/json.h"
#include "shade/models/model.h"

namespace shade::serve {

inline constexpr const char* kAdapterConfig = "adapter_config.json";

class Adapter {
 public:
  // `base`: the folder of the base model; empty: the one that adapter_config.json names. Throws UsageError for adapters
  // that compute something else than W + alpha / r * B A, naming the setting.
  Adapter(const std::filesystem::path& folder, const std::string& base);

  const std::filesystem::path& base() const { return base_; }

  // The base model with the adapters as layers, and a classifier's head if they have one. Every weight is bound, every
  // tensor of the adapters used.
  std::unique_ptr<models::Model> model(at::ScalarType type) const;

 private:
  std::filesystem::path folder_, base_;
  Json config_;
};

}  // namespace shade::serve
