// Whether a released folder holds the files that its privacy statement is about, byte for byte. This finds damage and
// mistakes, not forgery: privacy.json itself has no signature.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shade/base/json.h"

namespace shade::train {

// A privacy.json from elsewhere: what it promises, if it is a statement at all. docs/schema/privacy.schema.json.
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
std::string describe(const std::optional<StatedPromise>& promise);

// Whether the first paragraph of a PRIVACY.md states the same figures.
bool is_stated_in(const std::optional<StatedPromise>& promise, std::string_view page);

struct CheckedRelease {
  Json json;                     // privacy.json
  ReadStatement statement;       // what it says
  std::string statement_sha256;  // of privacy.json, to compare with one from elsewhere
  size_t matching = 0;           // files
  // Names below the folder, sorted; those of the folder's files are untrusted text. `unreadable` has folders too;
  // `extra` are not covered by the statement.
  std::vector<std::string> different, missing, unreadable, extra;

  bool passed() const { return different.empty() && missing.empty() && unreadable.empty() && extra.empty(); }
};

// The folder is untrusted. Throws UsageError if it is none, or has no privacy.json; Error if it or its privacy.json
// can't be read, or PRIVACY.md states another guarantee; io::FormatError if that is no statement with digests.
CheckedRelease check_release(const std::filesystem::path& folder);

// For a terminal: a line for each file with a fault, and the result.
std::vector<std::string> lines_of(const CheckedRelease& checked);

}  // namespace shade::train
