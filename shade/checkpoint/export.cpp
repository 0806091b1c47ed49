#include "shade/checkpoint/export.h"

#include <ATen/ATen.h>

#include "shade/base/error.h"
#include "shade/checkpoint/agreement.h"
#include "shade/checkpoint/owned.h"
#include "shade/checkpoint/reader.h"
#include "shade/io/scalar_type.h"
#include "shade/io/weight_folder_writer.h"

namespace shade::checkpoint {
namespace {

// transformers makes the model in the type that config.json says, whatever the files hold.
const char* hf_name(at::ScalarType type) {
  SHADE_REQUIRE(type == at::kFloat || type == at::kBFloat16 || type == at::kHalf || type == at::kDouble,
                "a model can't be exported as ", at::toString(type), "; choose float, bfloat16, half or double");
  return type == at::kFloat      ? "float32"
         : type == at::kBFloat16 ? "bfloat16"
         : type == at::kHalf     ? "float16"
                                 : "float64";
}

class Writer {
 public:
  Writer(const std::filesystem::path& folder, const std::vector<SavedWeight>& weights, const Json& config,
         const ExportOptions& options)
      : type_(options.dtype),
        folder_(folder),
        config_(config),
        weights_(folder, specs(weights, folder, type_), {.max_shard = options.max_shard}) {
    config_["torch_dtype"] = hf_name(options.dtype);
  }
  void put(const std::string& name, const at::Tensor& value) { weights_.put(name, value.to(type_)); }
  void commit() {
    write_json(folder_ / "config.json", config_);
    weights_.commit();
  }

 private:
  static std::vector<io::TensorSpec> specs(const std::vector<SavedWeight>& weights, const std::filesystem::path& folder,
                                           at::ScalarType type) {
    std::vector<io::TensorSpec> out;
    for (const auto& weight : weights) {
      SHADE_REQUIRE(weight.name.find(".lora_") == std::string::npos, "the model has a LoRA adapter '", weight.name,
                    "', which readers of ", folder, " would leave out");
      out.push_back({weight.name, io::dtype_of(type, weight.name), weight.shape});
    }
    return out;
  }

  at::ScalarType type_;
  std::filesystem::path folder_;
  Json config_;
  io::WeightFolderWriter weights_;
};

}  // namespace

void export_model(shard::Runtime& runtime, const std::filesystem::path& folder, const Json& config,
                  const comm::Group& group, const ExportOptions& options) {
  const auto what = text("exporting to ", folder);
  std::optional<Writer> writer;
  const auto on_rank0 = [&](const std::function<void()>& part) {
    together(group, what, [&] {
      if (group.rank() == 0) part();
    });
  };
  on_rank0([&] { writer.emplace(folder, weights_of(runtime), config, options); });
  for (const auto& unit : runtime.layout().units) {
    for (const auto& flat : unit.flats)
      for (const auto& piece : flat.pieces) {
        const auto value = runtime.whole(*piece.weight);
        on_rank0([&] { writer->put(piece.weight->name(), value); });
      }
  }
  on_rank0([&] { writer->commit(); });
}

void export_checkpoint(const std::filesystem::path& checkpoint, const std::filesystem::path& folder, const Json& config,
                       const ExportOptions& options) {
  Reader reader(checkpoint);
  const auto& weights = reader.manifest().weights;
  Writer writer(folder, weights, config, options);
  for (const auto& weight : weights) {
    int64_t count = 1;
    for (const auto dim : weight.shape) count *= dim;
    const Reader::Range all{kWeightPart, weight.name, 0, count};
    reader.check(all);
    auto value = at::empty({count}, io::scalar_type(reader.dtype(kWeightPart, weight.name)));
    reader.read(all, value);
    writer.put(weight.name, value.view(weight.shape));
  }
  writer.commit();
}

}  // namespace shade::checkpoint
