// The weights of a checkpoint, whole, by one process alone and without the model.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <set>

#include "shade/checkpoint/reader.h"

namespace shade::checkpoint {

class SavedWeights {
 public:
  explicit SavedWeights(const std::filesystem::path& checkpoint);  // throws io::FormatError

  const Manifest& manifest() const { return reader_.manifest(); }
  const std::vector<SavedWeight>& weights() const { return manifest().weights; }
  // Its moving average (optim/ema.h), if there is one. Proves the bytes; throws io::FormatError. UsageError for a name
  // that isn't there.
  at::Tensor whole(const std::string& name);

 private:
  Reader reader_;
  std::map<std::string, const SavedWeight*> by_name_;
  bool averaged_ = false;
};

}  // namespace shade::checkpoint
