// A privacy.json from elsewhere: what it promises, if it is a statement at all. docs/schema/privacy.schema.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "shade/base/json.h"

namespace shade::train {

struct StatedPromise {
  double epsilon = 0, delta = 0;
  std::string unit;             // "user"
  std::optional<int64_t> runs;  // that it holds for together; none: for one run
};

struct ReadStatement {
  std::string day;                           // of the release
  std::optional<StatedPromise> promise;      // none: no guarantee
  std::map<std::string, std::string> files;  // SHA-256 by name; PRIVACY.md is among them
};

// Throws io::FormatError naming `file` if a field that is used here is not as the format says.
ReadStatement read_statement(const Json& json, const std::filesystem::path& file);

// "epsilon 3 at delta 1e-05 per user, of 2 runs together", "NO privacy guarantee"
std::string words_of(const std::optional<StatedPromise>& promise);

// Whether the first paragraph of a PRIVACY.md states the same figures.
bool is_stated_in(const std::optional<StatedPromise>& promise, std::string_view page);

}  // namespace shade::train
