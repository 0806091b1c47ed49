// A model's weights as Hugging Face lays them out: a folder with model.safetensors, or with
// model.safetensors.index.json and the shards it names. All files are opened as files of a model folder (model_file.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "shade/io/safetensors.h"

namespace shade::io {

// Whether a folder has such files at all, whole or not.
bool has_weights(const std::filesystem::path& folder);

// Shards are opened when a tensor of theirs is asked for, and checked against the index then: a rank that needs a few
// layers opens a few shards. Safe to use from several threads.
class WeightFolder {
 public:
  // A folder, a .safetensors file, or an index (.json). Throws Error if there are no weights, or if a shard that the
  // index names is missing; FormatError for a broken index or a broken single file.
  explicit WeightFolder(const std::filesystem::path& place);

  const std::filesystem::path& path() const { return path_; }
  std::vector<std::string> names() const;  // sorted
  std::vector<std::filesystem::path> files() const;
  bool contains(std::string_view name) const { return shard_of_.contains(name); }

  // These open the tensor's shard. UsageError for a name that isn't there; FormatError if shard and index disagree: a
  // tensor the index names is not in its shard, a tensor is in two shards, or the index doesn't know it.
  const TensorInfo& info(std::string_view name) const;
  at::Tensor tensor(std::string_view name) const;                     // as SafetensorsFile::tensor
  at::Tensor read(std::string_view name, at::ScalarType type) const;  // as SafetensorsFile::read

  // Opens all shards, so that any disagreement shows now and not in the middle of a run.
  void check() const;

 private:
  struct Shard {
    std::filesystem::path name;                   // in folder_
    std::unique_ptr<const SafetensorsFile> file;  // null until it is needed
  };

  void read_index(const std::filesystem::path& index);
  const SafetensorsFile& open(size_t shard) const;
  const SafetensorsFile& holder(std::string_view name) const;
  void compare_with_index(size_t shard, const SafetensorsFile& file) const;

  std::filesystem::path path_, folder_;
  std::map<std::string, size_t, std::less<>> shard_of_;
  mutable std::mutex mutex_;  // of Shard::file
  mutable std::vector<Shard> shards_;
};

// model.safetensors.index.json: which shard holds which tensor.
//
//   {"metadata": {"total_size": 3087467144}, "weight_map": {"model.norm.weight": "model-00001-of-00002.safetensors"}}
//
// Knows no libtorch, so that it can be fuzzed alone.
inline constexpr const char* kWeightsFile = "model.safetensors";
inline constexpr const char* kWeightsIndex = "model.safetensors.index.json";

using WeightMap = std::map<std::string, std::string, std::less<>>;  // tensor -> file, relative to the index's folder

// Throws FormatError. A file outside the index's folder (absolute, or with "..") is refused: an index is
// untrusted, and must not choose which files of this machine are read. What is beside the weight map is skipped;
// total_size is wrong in published models and nothing here needs it.
WeightMap parse_weight_index(std::string_view json);

std::string print_weight_index(const WeightMap& weights, uint64_t total_size);

}  // namespace shade::io
