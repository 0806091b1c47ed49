// Names of the Hugging Face hub: of models that this machine has a copy of, or whose sizes are known. Nothing is
// downloaded.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace shade::models {

struct HubModel {
  std::string_view hub, size;  // Qwen/Qwen2-1.5B, and the name in the registry; "-Instruct" has the same sizes
};
inline constexpr HubModel kHubModels[] = {
    {"meta-llama/Meta-Llama-3-8B", "llama3-8b"},
    {"meta-llama/Meta-Llama-3.1-8B", "llama3.1-8b"},
    {"meta-llama/Llama-3.1-8B", "llama3.1-8b"},
    {"meta-llama/Llama-3.2-1B", "llama3.2-1b"},
    {"Qwen/Qwen2-1.5B", "qwen2-1.5b"},
    {"Qwen/Qwen2.5-1.5B", "qwen2.5-1.5b"},
    {"Qwen/Qwen3-0.6B", "qwen3-0.6b"},
    {"Qwen/Qwen3-1.7B", "qwen3-1.7b"},
    {"Qwen/Qwen3-4B", "qwen3-4b"},
    {"Qwen/Qwen3-8B", "qwen3-8b"},
    {"mistralai/Mistral-7B-v0.3", "mistral-7b"},
    {"mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b"},
};

bool is_hub_name(std::string_view name);                     // ORGANISATION/MODEL; a folder may be called so too
std::optional<std::string> hub_size(std::string_view name);  // the name in the registry

// HF_HUB_CACHE, else hub in HF_HOME, else huggingface/hub in XDG_CACHE_HOME or ~/.cache.
std::filesystem::path hub_cache();

// The snapshot that refs/main of the cache names, if it has a config.json.
std::optional<std::filesystem::path> hub_copy(std::string_view name);

// What a hub name without a copy stands for and how to get one: "no copy of ... in ...; hf download ... makes one".
std::string without_copy(std::string_view name);

}  // namespace shade::models
