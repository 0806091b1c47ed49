// A model's weights from and to files, by name.
#pragma once

#include <c10/core/ScalarType.h>

#include <filesystem>

#include "shade/base/units.h"
#include "shade/io/weight_folder.h"
#include "shade/models/model.h"
#include "shade/models/registry.h"

namespace shade::models {

// Binds every weight to its tensor in the folder or file (Hugging Face layout). The process needs the memory of the
// weights and 16 MiB, never that of the files too. Without `copy`, tensors of the wanted type stay read-only views of
// the mapped file, whose pages come in as they are used. A missing weight, a wrong shape or a tensor that the model
// doesn't know is an error that names it.
void load_weights(nn::Parameters& parameters, const std::filesystem::path& from, at::ScalarType type, bool copy = true);

// What a weight is called in the folder: without the prefix "model." where the decoder was saved without a head
// (transformers' AutoModel).
std::string stored_name(const io::WeightFolder& folder, const std::string& weight);

// Throws UsageError if the folder has tensors that are no weights of the model: it would be another model's. Left out
// are rotary_emb.inv_freq, the lm_head of what becomes a classifier, and a tied lm_head that equals the embedding.
void refuse_unknown(const io::WeightFolder& folder, const nn::Parameters& parameters);

// Writes what is bound, in the layout above.
void save_weights(const nn::Parameters& parameters, const std::filesystem::path& folder, int64_t max_shard_bytes);

// The folder that transformers and make_model() read: the weights, and the config.json that says what they are. A model
// with LoRA adapters is refused: readers of such a folder would leave the adapters out.
void save_model(const Model& model, const std::filesystem::path& folder, Bytes max_shard = GiB(5));

// What weights say of themselves: the config.json beside them.

// The folder of weights that are a folder or a file, if it has a config.json.
std::optional<std::filesystem::path> config_folder(const std::filesystem::path& weights);

// The type that transformers would load them in: what config.json says (dtype, torch_dtype), else that of the first
// tensor of floating-point numbers.
at::ScalarType type_of_weights(const std::filesystem::path& weights);

// Throws UsageError if the config.json of the weights describes another function than the model's: with another
// rope_theta, norm or head they fit and compute something else. Fields that only say how to train, how long a text may
// be, or what tokens and classes are called may differ.
void require_same_function(const std::string& model, const SizeOverrides& sizes, const ModelOptions& options,
                           const std::filesystem::path& weights);

}  // namespace shade::models
