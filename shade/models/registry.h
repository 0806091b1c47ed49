// Models by name, with any size overridden.
#pragma once

#include <filesystem>
#include <optional>

#include "shade/models/model.h"
#include "shade/models/sizes.h"

namespace shade::models {

// What recipes call a model that a program made itself: only that program can make it again.
inline constexpr const char* kOwnModel = "own";

// Names of the built-in sizes, such as llama3-8b; models made from them have random weights.
std::vector<std::string> model_names();

// The folder that a name stands for; none if it names a size of model_names(), or nothing.
std::optional<std::filesystem::path> model_folder(const std::string& name);

// Throws the UsageError of make_model() for a name that stands for neither.
void require_known(const std::string& name);

// Where a name of the Hugging Face hub (models/hub.h) leads, to be announced; empty: it is none.
std::string describe_hub_name(const std::string& name);

// The config.json of a folder as a model made from it would write it: every field has its value, defaults too.
std::string config_in(const std::filesystem::path& folder);

// What a model of these sizes may be called: its name, or "llama 256 x 2, shape of llama3-8b" if a size is not the
// named model's own; a stack of linear layers is called by its sizes alone. The same errors as make_model().
std::string model_title(const std::string& name, const SizeOverrides& sizes);

// Fields of a folder's config.json that transformers trains with and we don't: "attention_dropout 0.1".
std::vector<std::string> not_trained_with(const std::filesystem::path& folder);

// A name of model_names() in any case, "dit-xl/2" for another patch, a folder with a config.json, or a name of the
// Hugging Face hub (models/hub.h). Throws UsageError with the nearest name. Weights are declared, not bound.
std::unique_ptr<Model> make_model(const std::string& name, const SizeOverrides& sizes, const ModelOptions& options);

// What the model learns from, in the words of base/effect.h; the same errors as make_model().
std::string kind_of(const std::string& name, const SizeOverrides& sizes, const ModelOptions& options);

// Numbers of elements in a model's weights.
struct ModelSize {
  int64_t parameters = 0;  // of all weights
  int64_t trainable = 0;   // of those that are not frozen
};
// Of what make_model() would make, and with the same errors. Counted on one and two blocks: a model that is too large
// isn't built to learn that.
ModelSize size_of(const std::string& name, const SizeOverrides& sizes, const ModelOptions& options);

}  // namespace shade::models
