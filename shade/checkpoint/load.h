// A checkpoint into a running world: any number of ranks, any strategy, any wrap. To the bit.
#pragma once

#include <filesystem>
#include <optional>

#include "shade/checkpoint/reader.h"
#include "shade/optim/optimizer.h"
#include "shade/shard/runtime.h"

namespace shade::checkpoint {

// Collective over `group`, all ranks of the runtime; all ranks must see the folder. Each rank reads the elements it
// owns and proves the pieces they lie in. Only when every rank has proven all of its own is the first live tensor
// written: after an error, which all ranks throw alike, weights and optimizer are as they were. The model and the kind
// of optimizer must be the saved ones. Returns the manifest, with what the saver had to say.
Manifest load(const std::filesystem::path& folder, shard::Runtime& runtime, optim::Optimizer& optimizer,
              const comm::Group& group, const std::optional<io::Digest>& expected = {});

}  // namespace shade::checkpoint
