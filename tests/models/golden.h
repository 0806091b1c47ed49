// A golden case (tests/golden/README.md): a tiny model, its inputs, outputs and gradients in float64.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <string>

#include "shade/io/safetensors.h"
#include "shade/models/model.h"

namespace shade::test {

class Golden {
 public:
  explicit Golden(const std::string& name);

  std::unique_ptr<models::Model> model(const models::ModelOptions& options, at::ScalarType type) const;
  nn::Batch batch(at::ScalarType type) const;
  at::Tensor tensor(const std::string& name) const;
  bool has(const std::string& name) const { return case_.contains(name); }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  io::SafetensorsFile case_;
};

std::vector<std::string> golden_names();

// max |a - b| / max |b|, in float64.
double relative_difference(const at::Tensor& a, const at::Tensor& b);

}  // namespace shade::test
