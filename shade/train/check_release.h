// Whether a released folder holds the files that its privacy statement is about, byte for byte. This finds damage and
// mistakes, not forgery: privacy.json itself has no signature.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "shade/base/json.h"

namespace shade::train {

struct CheckedRelease {
  Json statement;
  std::string statement_sha256;  // of privacy.json, to compare with one from elsewhere
  size_t matching = 0;           // files
  // Names below the folder, sorted; those of the folder's files are untrusted text.
  std::vector<std::string> different, missing, extra;

  bool passed() const { return different.empty() && missing.empty() && extra.empty(); }
};

// The folder is untrusted. Throws UsageError if it has no privacy.json; io::FormatError if that is no statement with
// digests.
CheckedRelease check_release(const std::filesystem::path& folder);

}  // namespace shade::train
