#include "shade/train/release/check_release.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <set>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/units.h"
#include "shade/base/utc.h"
#include "shade/base/visible_text.h"
#include "shade/hash/digest.h"
#include "shade/io/errors.h"
#include "shade/io/model_file.h"
#include "shade/train/release/privacy_statement.h"

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
  if (name != kStatementText) return hash::sha256_of(*io::open_model_file(folder, name)) == digest;
  const auto page = io::read_model_text(folder, name);
  if (hash::sha256_of(page) != digest) return false;
  if (!is_stated_in(promise, page))
    throw Error(text(folder / kStatementJson, " states ", describe(promise), ", and the first paragraph of ",
                     kStatementText, " another guarantee; ask the publisher which of them holds"));
  return true;
}

}  // namespace

CheckedRelease check_release(const fs::path& place) {
  const auto folder = (place / "").parent_path();
  require_statement_in(folder);
  const auto words = statement_text_in(folder);
  CheckedRelease out;
  out.statement_sha256 = hash::sha256_of(words);
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
                                   checked.passed() ? text(": ", describe(checked.statement.promise)) : ""));
    out.push_back(join(rest, "; "));
  }
  return out;
}

namespace {

constexpr std::string_view kNoPromise = "NO privacy guarantee";

// Null if there is none.
const Json& member(const Json& json, const char* key) {
  static const Json kNone;
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found == json.end() ? kNone : *found;
}

std::string word_of(const Json& json) { return json.is_string() ? json.get<std::string>() : std::string(); }

class StatementFields {
 public:
  StatementFields(const Json& json, const std::filesystem::path& file) : json_(json), file_(file) {}

  [[noreturn]] void refuse(const std::string& why) const {
    throw io::FormatError(text(file_, " is not a privacy statement of shade release: ", why));
  }
  const Json& at(const char* key) const { return member(json_, key); }
  void expect(bool holds, const char* key, const char* expected) const {
    if (!holds) refuse(text("'", key, "' must be ", expected));
  }
  void expect_absent(const char* key, const char* reason) const {
    if (!at(key).is_null() || json_.contains(key)) refuse(text("it has '", key, "' although ", reason));
  }
  double number(const char* key, const char* expected, const std::function<bool(double)>& allowed) const {
    const auto& value = at(key);
    expect(value.is_number() && std::isfinite(value.get<double>()) && allowed(value.get<double>()), key, expected);
    return value.get<double>();
  }

 private:
  const Json& json_;
  const std::filesystem::path& file_;
};

void expect_format(const StatementFields& fields) {
  if (word_of(fields.at("format")) != kStatementFormat) fields.refuse("its format is another one");
  const auto& version = fields.at("version");
  if (!version.is_number_integer() || version != kStatementVersion)
    fields.refuse(text("expected version ", kStatementVersion));
  fields.expect(is_day(word_of(fields.at("released_on"))), "released_on", "a day as 2026-01-31");
  fields.expect(fields.at("guarantee").is_boolean(), "guarantee", "true or false");
}

StatedPromise promise_in(const StatementFields& fields) {
  fields.expect_absent("no_guarantee", "'guarantee' is true");
  StatedPromise out{
      .epsilon = fields.number("epsilon", "a finite number from 0 on", [](double value) { return value >= 0; }),
      .delta = fields.number("delta", "a number between 0 and 1", [](double value) { return value > 0 && value < 1; }),
      .unit = word_of(member(fields.at("unit"), "kind")),
      .runs = {}};
  fields.expect(out.unit == "record" || out.unit == "window" || out.unit == "user", "unit",
                "an object whose 'kind' is record, window or user");
  const auto scope = word_of(fields.at("scope"));
  fields.expect(scope == "run" || scope == "data ledger", "scope", "\"run\" or \"data ledger\"");
  if (scope == "run") return out;
  const auto& runs = member(fields.at("data_ledger"), "runs");
  fields.expect(runs.is_number_integer() && runs >= 1, "data_ledger", "an object with a number of 'runs'");
  out.runs = runs.get<int64_t>();
  return out;
}

void expect_no_promise(const StatementFields& fields) {
  fields.expect(!word_of(fields.at("no_guarantee")).empty(), "no_guarantee", "the reason why there is no guarantee");
  for (const char* key : {"epsilon", "delta", "scope", "run", "unit", "data_ledger"})
    fields.expect_absent(key, "'guarantee' is false");
}

std::map<std::string, std::string> stated_files(const StatementFields& fields) {
  fields.expect(fields.at("files").is_array(), "files", "a list");
  std::map<std::string, std::string> out;
  for (const auto& entry : fields.at("files")) {
    const auto name = word_of(member(entry, "name")), digest = word_of(member(entry, "sha256"));
    if (name.empty() || name == kStatementJson || !hash::digest_from_hex(digest))
      fields.refuse("each of its files needs a name and a SHA-256");
    if (!out.emplace(name, digest).second) fields.refuse("it names a file twice");
  }
  if (!out.contains(kStatementText)) fields.refuse(text("it does not name ", kStatementText));
  return out;
}

std::string_view first_paragraph(std::string_view page) {
  constexpr std::string_view kEnd = "\n\n";
  while (page.starts_with('#') || page.starts_with('\n')) {  // headings
    const auto line = page.find('\n');
    page.remove_prefix(line == std::string_view::npos ? page.size() : line + 1);
  }
  return page.substr(0, page.find(kEnd));
}

// Takes the prefix and the number after it off the words.
std::optional<double> take_number(std::string_view& words, std::string_view prefix) {
  if (!words.starts_with(prefix)) return std::nullopt;
  words.remove_prefix(prefix.size());
  double out = 0;
  const auto [end, fault] = std::from_chars(words.data(), words.data() + words.size(), out);
  if (fault != std::errc()) return std::nullopt;
  words.remove_prefix(static_cast<size_t>(end - words.data()));
  return out;
}

}  // namespace

ReadStatement read_statement(const Json& json, const std::filesystem::path& file) {
  const StatementFields fields(json, file);
  expect_format(fields);
  ReadStatement out{.day = word_of(fields.at("released_on")), .promise = {}, .files = stated_files(fields)};
  if (fields.at("guarantee") == true)
    out.promise = promise_in(fields);
  else
    expect_no_promise(fields);
  return out;
}

std::string describe(const std::optional<StatedPromise>& promise) {
  if (!promise) return std::string(kNoPromise);
  const auto together = [](int64_t runs) {
    return text(", of ", runs, runs == 1 ? " run with a data ledger" : " runs together");
  };
  return text("epsilon ", plain_digits(promise->epsilon), " at delta ", plain_digits(promise->delta), " per ",
              promise->unit, promise->runs ? together(*promise->runs) : "");
}

bool is_stated_in(const std::optional<StatedPromise>& promise, std::string_view page) {
  constexpr std::string_view kEpsilon = "epsilon ", kDelta = " at delta ";
  const auto words = first_paragraph(page);
  const bool none = words.find(kNoPromise) != std::string_view::npos;
  if (!promise || none) return !promise && none;
  bool stated = false;
  for (auto at = words.find(kEpsilon); at != std::string_view::npos; at = words.find(kEpsilon, at + 1)) {
    auto rest = words.substr(at);
    const auto epsilon = take_number(rest, kEpsilon);
    const auto delta = take_number(rest, kDelta);
    if (!epsilon || !delta) continue;
    // The cap of a data ledger is rounded up in the JSON alone.
    const bool same = *epsilon == promise->epsilon || std::stod(rounded_up(*epsilon)) == promise->epsilon;
    if (!same || *delta != promise->delta) return false;
    stated = true;
  }
  return stated;
}

}  // namespace shade::train
