// model.safetensors.index.json: which shard holds which tensor.
//
//   {"metadata": {"total_size": 3087467144}, "weight_map": {"model.norm.weight": "model-00001-of-00002.safetensors"}}
//
// Knows no libtorch, so that it can be fuzzed alone.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace shade::io {

inline constexpr const char* kWeightsFile = "model.safetensors";
inline constexpr const char* kWeightsIndex = "model.safetensors.index.json";

using WeightMap = std::map<std::string, std::string, std::less<>>;  // tensor -> file, relative to the index's folder

// Throws FormatError. A file outside the index's folder (absolute, or with "..") is refused: an index is
// untrusted, and must not choose which files of this machine are read. What is beside the weight map is skipped;
// total_size is wrong in published models and nothing here needs it.
WeightMap parse_weight_index(std::string_view json);

std::string print_weight_index(const WeightMap& weights, uint64_t total_size);

}  // namespace shade::io
