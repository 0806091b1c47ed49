#include "shade/train/check_release.h"

#include <algorithm>
#include <set>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/visible_text.h"
#include "shade/io/errors.h"
#include "shade/io/model_file.h"
#include "shade/io/sha256.h"
#include "shade/train/privacy_statement.h"

namespace shade::train {
namespace {

namespace fs = std::filesystem;

// Throws UsageError if the argument is wrong, Error if the system doesn't let us look.
void require_statement_in(const fs::path& folder) {
  constexpr const char* kExpected = "; expected a folder that shade release wrote";
  std::error_code fault;
  const auto looked_at = [&](const fs::path& path, const fs::file_status& status) {
    if (status.type() == fs::file_type::none) throw Error(text("cannot look at ", path, ": ", fault.message()));
    return status.type();
  };
  const auto kind = looked_at(folder, fs::status(folder, fault));
  SHADE_REQUIRE(kind != fs::file_type::not_found, "there is no folder ", folder.string(), kExpected);
  SHADE_REQUIRE(kind == fs::file_type::directory, folder.string(), " is not a folder", kExpected);
  const auto file = folder / kStatementJson;
  SHADE_REQUIRE(looked_at(file, fs::symlink_status(file, fault)) != fs::file_type::not_found, folder.string(),
                " has no ", kStatementJson, kExpected);
}

std::string statement_text_in(const fs::path& folder) {
  try {
    return io::read_model_text(folder, kStatementJson);
  } catch (const UsageError& fault) {  // it is there: the argument is not to blame
    throw Error(fault.what());
  }
}

// All but folders. A link is one of them, wherever it leads. Folders that can't be read are added to `closed`.
std::set<std::string> files_found(const fs::path& folder, std::vector<std::string>& closed) {
  std::set<std::string> out;
  std::vector<fs::path> open{folder};
  while (!open.empty()) {
    const auto place = open.back();
    open.pop_back();
    std::error_code fault;
    for (fs::directory_iterator entry(place, fault), end; !fault && entry != end; entry.increment(fault)) {
      std::error_code ignored;
      if (entry->symlink_status(ignored).type() == fs::file_type::directory)
        open.push_back(entry->path());
      else
        out.insert(entry->path().lexically_relative(folder).generic_string());
    }
    if (fault && place == folder) throw Error(text("cannot read the folder ", folder, ": ", fault.message()));
    if (fault) closed.push_back(place.lexically_relative(folder).generic_string());
  }
  out.erase(kStatementJson);
  return out;
}

// Of PRIVACY.md, what is compared is what is read in it.
bool matches(const fs::path& folder, const std::string& name, const std::string& digest,
             const std::optional<StatedPromise>& promise) {
  if (name != kStatementText) return io::sha256_of(*io::open_model_file(folder, name)) == digest;
  const auto page = io::read_model_text(folder, name);
  if (io::sha256_of(page) != digest) return false;
  if (!is_stated_in(promise, page))
    throw Error(text(folder / kStatementJson, " states ", words_of(promise), ", and the first paragraph of ",
                     kStatementText, " another guarantee; ask the publisher which of them holds"));
  return true;
}

}  // namespace

CheckedRelease check_release(const fs::path& place) {
  const auto folder = (place / "").parent_path();
  require_statement_in(folder);
  const auto words = statement_text_in(folder);
  CheckedRelease out;
  out.statement_sha256 = io::sha256_of(words);
  out.json = io::parse_model_json(words, folder / kStatementJson);
  out.statement = read_statement(out.json, folder / kStatementJson);
  auto found = files_found(folder, out.unreadable);
  const auto is_in_closed = [closed = out.unreadable](const std::string& name) {
    return std::any_of(closed.begin(), closed.end(), [&](const auto& one) { return name.starts_with(one + "/"); });
  };
  for (const auto& [name, digest] : out.statement.files) {
    if (found.erase(name) == 0) {
      (is_in_closed(name) ? out.unreadable : out.missing).push_back(name);
      continue;
    }
    try {
      if (matches(folder, name, digest, out.statement.promise))
        ++out.matching;
      else
        out.different.push_back(name);
    } catch (const io::FormatError&) {  // leads out of the folder, or is no regular file
      out.different.push_back(name);
    } catch (const UsageError&) {  // nothing is known of it
      out.unreadable.push_back(name);
    }
  }
  std::sort(out.unreadable.begin(), out.unreadable.end());
  out.extra.assign(found.begin(), found.end());
  return out;
}

std::vector<std::string> lines_of(const CheckedRelease& checked) {
  std::vector<std::string> out;
  const auto say = [&](const std::vector<std::string>& names, const char* what) {
    for (const auto& name : names) out.push_back(text(visible(name), " ", what));  // perhaps no UTF-8
  };
  say(checked.different, "differs from the statement");
  say(checked.missing, "is missing");
  say(checked.unreadable, "cannot be read");
  say(checked.extra, "is not covered by the statement");
  const auto count = [](size_t number, const char* one, const char* many) {
    return text(number, " ", number == 1 ? one : many);
  };
  std::vector<std::string> rest;
  if (const auto number = checked.unreadable.size(); number > 0) rest.push_back(text(number, " cannot be read"));
  if (const auto number = checked.extra.size(); number > 0)
    rest.push_back(count(number, "more is not covered by the statement", "more are not covered by the statement"));
  const auto day = checked.statement.day;
  if (const auto wrong = checked.different.size() + checked.missing.size(); wrong > 0) {
    rest.insert(rest.begin(), count(checked.matching, "matches", "match"));
    out.push_back(text(count(wrong, "file does not match", "files do not match"), " the statement of ", day,
                       ", which does not hold for this folder (", join(rest, ", "), ")"));
  } else {
    rest.insert(rest.begin(), text(count(checked.matching, "file matches", "files match"), " the statement of ", day,
                                   checked.passed() ? text(": ", words_of(checked.statement.promise)) : ""));
    out.push_back(join(rest, "; "));
  }
  return out;
}

}  // namespace shade::train
