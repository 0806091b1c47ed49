// Writes a model's folder with freshly initialised bf16 weights, one weight at a time: a checkpoint of any size on a
// machine that couldn't hold it.
//
//   random_checkpoint MODEL FOLDER [LAYERS [VOCABULARY]]         e.g. qwen2-1.5b random_qwen2
#include <ATen/ATen.h>

#include <cstdio>

#include "shade/base/error.h"
#include "shade/base/json.h"
#include "shade/io/weight_folder_writer.h"
#include "shade/models/registry.h"
#include "tests/models/random_checkpoint.h"

namespace shade::models {
namespace {

void write(const std::string& name, const std::filesystem::path& folder, const SizeOverrides& sizes) {
  const auto model = make_model(name, sizes, {});
  std::vector<io::TensorSpec> specs;
  for (const auto& weight : model->parameters().weights())
    specs.push_back({weight.name(), io::Dtype::bf16, weight.shape()});
  io::WeightFolderWriter writer(folder, specs, {.max_shard = GiB(1)});
  for (const auto& weight : model->parameters().weights())
    writer.put(weight.name(), test::random_part(weight, 0, weight.numel()).view(weight.shape()));
  writer.commit();
  auto config = parse_json(model->config_json());
  config["torch_dtype"] = "bfloat16";
  write_json(folder / "config.json", config);
}

}  // namespace
}  // namespace shade::models

int main(int argc, char** argv) {
  if (argc < 3 || argc > 5) {
    std::fprintf(stderr, "usage: random_checkpoint MODEL FOLDER [LAYERS [VOCABULARY]]\n");
    return 2;
  }
  try {
    shade::models::SizeOverrides sizes;
    if (argc > 3) sizes.num_layers = std::stoll(argv[3]);
    if (argc > 4) sizes.vocab_size = std::stoll(argv[4]);
    shade::models::write(argv[1], argv[2], sizes);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "random_checkpoint: %s\n", error.what());
    return 1;
  }
}
