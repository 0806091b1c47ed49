// What weights say of themselves: the config.json beside them.
#pragma once

#include <c10/core/ScalarType.h>

#include <filesystem>

#include "shade/models/registry.h"

namespace shade::models {

// The folder of weights that are a folder or a file, if it has a config.json.
std::optional<std::filesystem::path> config_folder(const std::filesystem::path& weights);

// The type that transformers would load them in: what config.json says (dtype, torch_dtype), else that of the first
// tensor of floating-point numbers.
at::ScalarType type_of_weights(const std::filesystem::path& weights);

// Throws UsageError if the config.json of the weights describes another function than the model's: with another
// rope_theta, norm or head they fit and compute something else. Fields that only say how to train, how long a text may
// be, or what tokens and classes are called may differ.
void require_same_function(const std::string& model, const SizeOverrides& sizes, const ModelOptions& options,
                           const std::filesystem::path& weights);

}  // namespace shade::models
