#include "shade/io/weight_folder_writer.h"

#include <cstdio>
#include <system_error>

#include "shade/io/strict_json.h"

namespace shade::io {
namespace {

std::string shard_name(size_t number, size_t count) {
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", number + 1, count);
  return name;
}

}  // namespace

void prepare_weight_folder(const std::filesystem::path& folder) {
  std::error_code fault;
  std::filesystem::create_directories(folder, fault);
  if (fault) throw Error(text("cannot make the folder ", folder, ": ", fault.message()));
  // Weights of any layout, whole or half written: shards without an index come from a run that was interrupted.
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    SHADE_REQUIRE(name != kWeightsIndex && !(name.starts_with("model") && name.ends_with(".safetensors")), folder,
                  " already has weights (", name, "); give another folder, or remove them");
  }
}

WeightFolderWriter::WeightFolderWriter(const std::filesystem::path& folder, const std::vector<TensorSpec>& tensors,
                                       const WeightFolderOptions& options)
    : folder_(folder) {
  SHADE_REQUIRE(options.max_shard > Bytes{0}, "the largest shard must have more than ", to_string(options.max_shard));
  prepare_weight_folder(folder);

  std::vector<std::vector<TensorSpec>> shards(1);
  uint64_t filled = 0;
  for (const auto& spec : tensors) {
    const auto size = tensor_size(spec.name, spec.dtype, spec.shape);
    if (!shards.back().empty() && filled + size > static_cast<uint64_t>(options.max_shard.count)) {
      shards.emplace_back();
      filled = 0;
    }
    SHADE_REQUIRE(shard_of_.emplace(spec.name, shards.size() - 1).second, "tensor ", quote(spec.name),
                  " is declared twice for ", folder);
    shards.back().push_back(spec);
    filled += size;
    total_size_ += size;
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    const auto name = shards.size() == 1 ? kWeightsFile : shard_name(i, shards.size());
    shards_.push_back(std::make_unique<SafetensorsWriter>(folder / name, shards[i], options.metadata));
  }
}

void WeightFolderWriter::put(std::string_view name, const at::Tensor& tensor) {
  const auto found = shard_of_.find(name);
  SHADE_REQUIRE(found != shard_of_.end(), "tensor ", quote(name), " was not declared for ", folder_);
  shards_[found->second]->put(name, tensor);
}

void WeightFolderWriter::commit() {
  for (const auto& shard : shards_) shard->check_complete();
  for (const auto& shard : shards_) shard->commit();
  if (shards_.size() == 1) return;
  WeightMap weights;
  for (const auto& [name, shard] : shard_of_) weights.emplace(name, shards_[shard]->path().filename());
  const auto index = print_weight_index(weights, total_size_);
  NewFile file(folder_ / kWeightsIndex);
  file.write_at(0, std::as_bytes(std::span(index)));
  file.commit();
}

void write_weight_folder(const std::filesystem::path& folder, const TensorMap& tensors,
                         const WeightFolderOptions& options) {
  std::vector<TensorSpec> specs;
  for (const auto& [name, tensor] : tensors) specs.push_back(spec_of(name, tensor));
  WeightFolderWriter writer(folder, specs, options);
  for (const auto& [name, tensor] : tensors) writer.put(name, tensor);
  writer.commit();
}

}  // namespace shade::io
