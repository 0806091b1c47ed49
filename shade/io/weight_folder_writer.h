// Writing a model's weights as Hugging Face lays them out: one file, or shards of a limited size and their index.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "shade/base/units.h"
#include "shade/io/safetensors_writer.h"
#include "shade/io/weight_folder.h"

namespace shade::io {

struct WeightFolderOptions {
  Bytes max_shard = GiB(5);             // of tensor data; a larger tensor gets its own shard
  Metadata metadata{{"format", "pt"}};  // transformers refuses files that don't say this
};

// Makes the folder if it is not there. Throws UsageError if it has weights: a folder never mixes two models.
void prepare_weight_folder(const std::filesystem::path& folder);

// As SafetensorsWriter: declare, put in any order, commit. The index is written last: without it shards are not
// weights.
class WeightFolderWriter {
 public:
  // prepare_weight_folder(), too. Tensors are packed in the order given.
  WeightFolderWriter(const std::filesystem::path& folder, const std::vector<TensorSpec>& tensors,
                     const WeightFolderOptions& options = {});

  void put(std::string_view name, const at::Tensor& tensor);
  void commit();

 private:
  std::filesystem::path folder_;
  std::vector<std::unique_ptr<SafetensorsWriter>> shards_;
  std::map<std::string, size_t, std::less<>> shard_of_;
  uint64_t total_size_ = 0;  // bytes
};

void write_weight_folder(const std::filesystem::path& folder, const TensorMap& tensors,
                         const WeightFolderOptions& options = {});

}  // namespace shade::io
