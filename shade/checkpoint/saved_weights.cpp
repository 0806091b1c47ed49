#include "shade/checkpoint/saved_weights.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "shade/base/error.h"
#include "shade/checkpoint/owned.h"
#include "shade/io/dtype.h"
#include "shade/optim/ema.h"

namespace shade::checkpoint {

SavedWeights::SavedWeights(const std::filesystem::path& checkpoint) : reader_(checkpoint) {
  for (const auto& weight : weights()) by_name_[weight.name] = &weight;
  const auto& states = manifest().states;
  averaged_ = std::find(states.begin(), states.end(), optim::kAverage) != states.end();
}

at::Tensor SavedWeights::whole(const std::string& name) {
  const auto found = by_name_.find(name);
  SHADE_REQUIRE(found != by_name_.end(), reader_.path(), " has no weight '", name, "', which the model needs");
  const auto& [weight, shape, trainable] = *found->second;
  const Reader::Range all{averaged_ && trainable ? optim::kAverage : kWeightPart, name, 0,
                          c10::multiply_integers(shape)};
  reader_.check(all);
  const auto value = at::empty({all.size}, io::scalar_type(reader_.dtype(all.part, name)));
  reader_.read(all, value);
  return value.view(shape);
}

}  // namespace shade::checkpoint
