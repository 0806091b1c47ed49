#include "shade/checkpoint/export.h"

#include <ATen/ATen.h>

#include <map>
#include <set>

#include "shade/base/error.h"
#include "shade/checkpoint/agreement.h"
#include "shade/checkpoint/owned.h"
#include "shade/checkpoint/saved_weights.h"
#include "shade/io/dtype.h"
#include "shade/io/weight_folder_writer.h"
#include "shade/nn/adapter.h"

namespace shade::checkpoint {
namespace {

constexpr const char* kAdapterFile = "adapter_model.safetensors";
constexpr std::string_view kWeight = ".weight", kDown = ".lora_A.weight", kUp = ".lora_B.weight";

// A weight as it is written: with its LoRA adapter added, if it has one.
struct Part {
  std::string name;
  std::vector<int64_t> shape;
  bool adapted = false;

  std::string sibling(std::string_view ending) const {
    return name.substr(0, name.size() - kWeight.size()).append(ending);
  }
};

std::vector<Part> parts_of(const std::vector<SavedWeight>& weights, const ExportOptions& options) {
  std::set<std::string> adapters;  // whose weight has not been met
  for (const auto& weight : weights)
    if (nn::is_adapter(weight.name)) adapters.insert(weight.name);
  SHADE_REQUIRE(adapters.empty() || options.lora_scale, "the model has a LoRA adapter '", *adapters.begin(),
                "'; to add it to its weight its scale is needed: alpha over rank, as ExportOptions::lora_scale");
  std::vector<Part> out;
  for (const auto& weight : weights) {
    if (nn::is_adapter(weight.name)) continue;
    auto& part = out.emplace_back(Part{weight.name, weight.shape});
    if (!part.name.ends_with(kWeight)) continue;
    part.adapted = adapters.erase(part.sibling(kDown)) > 0 && adapters.erase(part.sibling(kUp)) > 0;
  }
  SHADE_REQUIRE(adapters.empty(), "the model has '", *adapters.begin(), "', but not the weight that it adapts");
  return out;
}

// What a part is made of, whole.
struct Found {
  at::Tensor value, down, up;
};

Found find(const Part& part, const std::function<at::Tensor(const std::string&)>& whole) {
  Found found{.value = whole(part.name)};
  if (part.adapted) found.down = whole(part.sibling(kDown)), found.up = whole(part.sibling(kUp));
  return found;
}

// As it is written: merged in the adapters' type, which is the masters', and rounded once. A frozen weight may be bf16.
at::Tensor exported(const Part& part, const Found& found, const ExportOptions& options) {
  auto value = found.value;
  if (part.adapted) value = at::addmm(value.to(found.down.scalar_type()), found.up, found.down, 1, *options.lora_scale);
  auto out = value.to(options.dtype);
  SHADE_REQUIRE(
      options.dtype != at::kHalf || at::isfinite(out).all().item<bool>(), "'", part.name,
      "' has elements beyond the range of fp16 (65504); export in another type (--export-dtype bf16 or fp32)");
  return out;
}

struct Trained {
  std::string name;
  std::vector<int64_t> shape;
};

// What was trained, in PEFT's layout.
class AdapterWriter {
 public:
  AdapterWriter(const std::filesystem::path& folder, const std::string& config, const std::vector<Trained>& trained)
      : folder_(folder), config_(parse_json(config)) {
    prepare_adapter_folder(folder);
    std::vector<io::TensorSpec> specs;
    for (const auto& [name, shape] : trained) specs.push_back({in_peft(name), io::Dtype::f32, shape});
    weights_.emplace(folder / kAdapterFile, specs, io::Metadata{{"format", "pt"}});
  }
  void put(const std::string& name, const at::Tensor& value) { weights_->put(in_peft(name), value.to(at::kFloat)); }
  void commit() {
    write_json(folder_ / "adapter_config.json", config_);
    weights_->commit();
  }

 private:
  static std::string in_peft(const std::string& name) { return "base_model.model." + name; }

  std::filesystem::path folder_;
  Json config_;
  std::optional<io::SafetensorsWriter> weights_;
};

class Writer {
 public:
  Writer(const std::filesystem::path& folder, const std::vector<Part>& parts, const std::string& config,
         const ExportOptions& options)
      : options_(options),
        folder_(folder),
        config_(parse_json(config)),
        weights_(folder, specs(parts, options.dtype), {.max_shard = options.max_shard}) {
    config_["torch_dtype"] = io::hf_name(options.dtype);
  }
  void put(const Part& part, const Found& found) { weights_.put(part.name, exported(part, found, options_)); }
  void commit() {
    write_json(folder_ / "config.json", config_);
    weights_.commit();
  }

 private:
  static std::vector<io::TensorSpec> specs(const std::vector<Part>& parts, at::ScalarType type) {
    std::vector<io::TensorSpec> out;
    for (const auto& part : parts) out.push_back({part.name, io::dtype_of(type, part.name), part.shape});
    return out;
  }

  ExportOptions options_;
  std::filesystem::path folder_;
  Json config_;
  io::WeightFolderWriter weights_;
};

// All ranks go on, or all throw what rank 0 did.
class OnRank0 {
 public:
  OnRank0(const comm::Group& group, const std::filesystem::path& folder)
      : group_(&group), what_(text("exporting to ", folder)) {}
  void operator()(const std::function<void()>& act) const {
    together(*group_, what_, [&] {
      if (group_->rank() == 0) act();
    });
  }

 private:
  const comm::Group* group_;
  std::string what_;
};

template <class Act>
void for_weights(const shard::Runtime& runtime, Act&& act) {
  for (const auto& unit : runtime.layout().units)
    for (const auto& flat : unit.flats)
      for (const auto& piece : flat.pieces) act(*piece.weight);
}

// A weight by its name, gathered. Collective.
std::function<at::Tensor(const std::string&)> gathered(shard::Runtime& runtime) {
  std::map<std::string, const nn::Weight*> weights;
  for_weights(runtime, [&](const nn::Weight& weight) { weights[weight.name()] = &weight; });
  return [&runtime, weights = std::move(weights)](const std::string& name) { return runtime.whole(*weights.at(name)); };
}

}  // namespace

void try_export(shard::Runtime& runtime, const std::filesystem::path& folder, const comm::Group& group,
                const ExportOptions& options) {
  const OnRank0 on_rank0(group, folder);
  const auto whole = gathered(runtime);
  std::set<std::pair<std::vector<int64_t>, bool>> tried;
  for (const auto& part : parts_of(weights_of(runtime), options)) {
    if (!tried.emplace(part.shape, part.adapted).second) continue;
    const auto found = find(part, whole);
    on_rank0([&] { exported(part, found, options); });
  }
}

void export_model(shard::Runtime& runtime, const std::filesystem::path& folder, const std::string& config,
                  const comm::Group& group, const ExportOptions& options) {
  const OnRank0 on_rank0(group, folder);
  std::optional<Writer> writer;
  const auto whole = gathered(runtime);
  const auto parts = parts_of(weights_of(runtime), options);
  on_rank0([&] { writer.emplace(folder, parts, config, options); });
  for (const auto& part : parts) {
    const auto found = find(part, whole);
    on_rank0([&] { writer->put(part, found); });
  }
  on_rank0([&] { writer->commit(); });
}

void prepare_adapter_folder(const std::filesystem::path& folder) {
  SHADE_REQUIRE(!std::filesystem::exists(folder / kAdapterFile), folder / kAdapterFile,
                " already exists; choose another folder");
  std::filesystem::create_directories(folder);
}

void export_adapter(shard::Runtime& runtime, const std::filesystem::path& folder, const std::string& config,
                    const comm::Group& group) {
  const OnRank0 on_rank0(group, folder);
  std::vector<Trained> trained;
  for_weights(runtime, [&](const nn::Weight& weight) {
    if (weight.trainable()) trained.push_back({weight.name(), weight.shape()});
  });
  const auto whole = gathered(runtime);
  std::optional<AdapterWriter> writer;
  on_rank0([&] { writer.emplace(folder, config, trained); });
  for (const auto& [name, shape] : trained) {
    const auto value = whole(name);
    on_rank0([&] { writer->put(name, value); });
  }
  on_rank0([&] { writer->commit(); });
}

void export_checkpoint_adapter(const std::filesystem::path& checkpoint, const std::filesystem::path& folder,
                               const std::string& config) {
  SavedWeights weights(checkpoint);
  std::vector<Trained> trained;
  for (const auto& [name, shape, trainable] : weights.weights())
    if (trainable) trained.push_back({name, shape});
  AdapterWriter writer(folder, config, trained);
  for (const auto& [name, shape] : trained) writer.put(name, weights.whole(name));
  writer.commit();
}

void export_checkpoint(const std::filesystem::path& checkpoint, const std::filesystem::path& folder,
                       const std::string& config, const ExportOptions& options) {
  SavedWeights weights(checkpoint);
  const auto parts = parts_of(weights.weights(), options);
  Writer writer(folder, parts, config, options);
  for (const auto& part : parts)
    writer.put(part, find(part, [&](const std::string& name) { return weights.whole(name); }));
  writer.commit();
}

}  // namespace shade::checkpoint
