#include "shade/models/hub.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/io/model_file.h"

namespace shade::models {
namespace {

namespace fs = std::filesystem;

// One part of a hub name, or a commit: no path can be made of it.
bool is_plain(std::string_view word) {
  return !word.empty() && word.front() != '.' && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.';
  });
}

fs::path variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? fs::path() : fs::path(value);
}

}  // namespace

bool is_hub_name(std::string_view name) {
  const auto slash = name.find('/');
  return slash != std::string_view::npos && is_plain(name.substr(0, slash)) && is_plain(name.substr(slash + 1));
}

std::optional<std::string> hub_size(std::string_view name) {
  constexpr std::string_view kTuned = "-Instruct";
  if (name.ends_with(kTuned)) name.remove_suffix(kTuned.size());
  for (const auto& [hub, size] : kHubModels)
    if (hub == name) return std::string(size);
  return std::nullopt;
}

fs::path hub_cache() {
  if (const auto cache = variable("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const auto home = variable("HF_HOME"); !home.empty()) return home / "hub";
  const auto cache = variable("XDG_CACHE_HOME");
  return (cache.empty() ? variable("HOME") / ".cache" : cache) / "huggingface" / "hub";
}

std::optional<fs::path> hub_copy(std::string_view name) {
  if (!is_hub_name(name)) return std::nullopt;
  const auto slash = name.find('/');
  const auto folder = hub_cache() / text("models--", name.substr(0, slash), "--", name.substr(slash + 1));
  if (!io::has_model_file(folder, "refs/main")) return std::nullopt;
  std::istringstream in(io::read_model_text(folder, "refs/main"));
  std::string commit;
  if (!(in >> commit) || !is_plain(commit)) return std::nullopt;
  const auto snapshot = folder / "snapshots" / commit;
  return fs::exists(snapshot / "config.json") ? std::optional(snapshot) : std::nullopt;
}

std::string without_copy(std::string_view name) {
  return text("no copy of ", name, " in the Hugging Face cache ", hub_cache().string(),
              ", and shade doesn't download: get one with `hf download ", name,
              "`, or name a folder (--model-folder), which `hf download ", name, " --local-dir FOLDER` makes");
}

}  // namespace shade::models
