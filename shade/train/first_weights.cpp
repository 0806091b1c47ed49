#include "shade/train/first_weights.h"

#include <ATen/ATen.h>

#include <filesystem>

#include "shade/base/error.h"
#include "shade/io/weight_folder.h"
#include "shade/models/weights.h"
#include "shade/nn/adapter.h"

namespace shade::train {
namespace {

bool may_be_new(const nn::Weight& weight) { return nn::is_adapter(weight.name()) || weight.task_head(); }

}  // namespace

void start_from(const std::string& place, const nn::Parameters& parameters, shard::Runtime& runtime, uint64_t seed) {
  SHADE_REQUIRE(std::filesystem::exists(place), "no weights at ", place,
                " (--weights); expected a folder or file of safetensors");
  const io::WeightFolder folder(place);
  models::refuse_unknown(folder, parameters);
  runtime.fill([&](const nn::Weight& weight, int64_t begin, const at::Tensor& out) {
    const auto name = models::stored_name(folder, weight.name());
    if (may_be_new(weight) && !folder.contains(name)) return nn::initialise(out, weight, seed, begin);
    SHADE_REQUIRE(folder.contains(name), place, " has no tensor '", name,
                  "', which the model needs; are these weights of this architecture and task?");
    const auto& found = folder.info(name);
    SHADE_REQUIRE(found.shape == weight.shape(), place, ": tensor '", name, "' has shape ",
                  at::IntArrayRef(found.shape), ", the model expects ", at::IntArrayRef(weight.shape()));
    out.copy_(folder.tensor(name).view(-1).narrow(0, begin, out.numel()));
  });
}

}  // namespace shade::train
