#include "shade/train/read_statement.h"

#include <charconv>
#include <cmath>
#include <functional>

#include "shade/base/error.h"
#include "shade/base/units.h"
#include "shade/base/utc.h"
#include "shade/io/digest.h"
#include "shade/io/errors.h"
#include "shade/train/privacy_statement.h"

namespace shade::train {
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

void expect_format(const StatementFields& fields, const std::filesystem::path& file) {
  if (word_of(fields.at("format")) != kStatementFormat) fields.refuse("its format is another one");
  const auto& version = fields.at("version");
  if (version.is_number_integer() && version == 1)
    throw io::FormatError(
        text(file, " has no digests of files: it was written by an earlier version. Release the run again"));
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
    if (name.empty() || name == kStatementJson || !io::digest_from_hex(digest))
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
  expect_format(fields, file);
  ReadStatement out{.day = word_of(fields.at("released_on")), .promise = {}, .files = stated_files(fields)};
  if (fields.at("guarantee") == true)
    out.promise = promise_in(fields);
  else
    expect_no_promise(fields);
  return out;
}

std::string words_of(const std::optional<StatedPromise>& promise) {
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
