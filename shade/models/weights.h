// A model's weights from and to files, by name.
#pragma once

#include <filesystem>

#include "shade/models/model.h"

namespace shade::models {

// Binds every weight to its tensor in the folder or file (Hugging Face layout). Tensors of the wanted type stay views
// of the mapped file: nothing is copied, and pages come in as they are used. `copy` makes them writable. A missing
// weight, a wrong shape or a tensor that the model doesn't know is an error that names it.
void load_weights(nn::Parameters& parameters, const std::filesystem::path& from, at::ScalarType type, bool copy = true);

// Writes what is bound, in the layout above.
void save_weights(const nn::Parameters& parameters, const std::filesystem::path& folder, int64_t max_shard_bytes);

}  // namespace shade::models
