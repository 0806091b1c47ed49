#include "shade/train/check_release.h"

#include <algorithm>
#include <map>
#include <set>

#include "shade/base/error.h"
#include "shade/io/digest.h"
#include "shade/io/errors.h"
#include "shade/io/model_file.h"
#include "shade/io/sha256.h"
#include "shade/train/privacy_statement.h"

namespace shade::train {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_statement(const fs::path& file, const std::string& why) {
  throw io::FormatError(text(file, " is not a privacy statement of shade release: ", why));
}

// Digests by name.
std::map<std::string, std::string> files_stated(const Json& statement, const fs::path& file) {
  const auto field = [](const Json& json, const char* key) {
    const auto found = json.is_object() && json.contains(key) ? json[key] : Json();
    return found.is_string() ? found.get<std::string>() : std::string();
  };
  if (field(statement, "format") != kStatementFormat) refuse_statement(file, "its format is another one");
  if (statement.contains("version") && statement["version"] == 1)
    throw io::FormatError(
        text(file, " has no digests of files: it was written by an earlier version. Release the run again"));
  if (!statement.contains("version") || statement["version"] != kStatementVersion)
    refuse_statement(file, text("expected version ", kStatementVersion));
  if (!statement.contains("guarantee") || !statement["guarantee"].is_boolean())
    refuse_statement(file, "'guarantee' must be true or false");
  if (!statement.contains("files") || !statement["files"].is_array()) refuse_statement(file, "it has no list of files");
  std::map<std::string, std::string> out;
  for (const auto& entry : statement["files"]) {
    const auto name = field(entry, "name"), digest = field(entry, "sha256");
    if (name.empty() || name == kStatementJson || !io::digest_from_hex(digest))
      refuse_statement(file, "each of its files needs a name and a SHA-256");
    if (!out.emplace(name, digest).second) refuse_statement(file, "it names a file twice");
  }
  if (!out.contains(kStatementText)) refuse_statement(file, text("it does not name ", kStatementText));
  return out;
}

// All but folders. A link is one of them, wherever it leads.
std::set<std::string> files_found(const fs::path& folder) {
  std::set<std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_symlink() || !entry.is_directory())
      out.insert(entry.path().lexically_relative(folder).generic_string());
  out.erase(kStatementJson);
  return out;
}

bool has_digest(const fs::path& folder, const std::string& name, const std::string& digest) {
  try {
    return io::sha256_of(*io::open_model_file(folder, name)) == digest;
  } catch (const io::FormatError&) {  // leads out of the folder, or is no regular file
    return false;
  }
}

}  // namespace

CheckedRelease check_release(const fs::path& place) {
  const auto folder = (place / "").parent_path();
  SHADE_REQUIRE(fs::is_directory(folder) && io::has_model_file(folder, kStatementJson), place.string(), " has no ",
                kStatementJson, "; expected a folder that shade release wrote");
  const auto file = io::open_model_file(folder, kStatementJson);
  CheckedRelease out{.statement = io::read_model_json(folder, kStatementJson),
                     .statement_sha256 = io::sha256_of(*file),
                     .different = {},
                     .missing = {},
                     .extra = {}};
  const auto stated = files_stated(out.statement, file->path());
  auto found = files_found(folder);
  for (const auto& [name, digest] : stated) {
    if (found.erase(name) == 0)
      out.missing.push_back(name);
    else if (has_digest(folder, name, digest))
      ++out.matching;
    else
      out.different.push_back(name);
  }
  out.extra.assign(found.begin(), found.end());
  return out;
}

}  // namespace shade::train
