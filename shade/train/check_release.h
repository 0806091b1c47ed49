// Whether a released folder holds the files that its privacy statement is about, byte for byte. This finds damage and
// mistakes, not forgery: privacy.json itself has no signature.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "shade/base/json.h"
#include "shade/train/read_statement.h"

namespace shade::train {

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
