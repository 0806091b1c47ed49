#include "shade/io/strict_json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <vector>

#include "shade/base/visible_text.h"
#include "shade/io/errors.h"

namespace shade::io {

namespace {

class StrictReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  StrictReader(std::string_view json, std::string_view what, JsonVisitor& visitor)
      : json_(json), what_(what), visitor_(visitor) {}

  bool null() override { return pass({.kind = JsonKind::null}); }
  bool boolean(bool truth) override { return pass({.kind = JsonKind::boolean, .boolean = truth}); }
  // Called for numbers with a minus sign only, "-0" among them.
  bool number_integer(number_integer_t) override { return pass({.kind = JsonKind::negative}); }
  bool number_unsigned(number_unsigned_t number) override {
    return pass({.kind = JsonKind::integer, .integer = number});
  }
  bool number_float(number_float_t, const string_t&) override { return pass({.kind = JsonKind::real}); }
  bool string(string_t& words) override { return pass({.kind = JsonKind::string, .string = words}); }
  bool binary(binary_t&) override { return false; }  // not in JSON texts

  bool start_object(std::size_t) override { return open(JsonKind::object); }
  bool start_array(std::size_t) override { return open(JsonKind::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    auto& here = open_.back();
    if (!here.keys.insert(name).second)
      throw FormatError(text("the ", what_, " has the key ", quote(name), " twice", place()));
    here.last_key = name;
    visitor_.key(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    // nlohmann counts characters read, the faulty one included; at the end of the text one more than there are.
    const auto at = std::min(position == 0 ? 0 : position - 1, json_.size());
    const auto shown = std::min<size_t>(at, 24);
    throw FormatError(
        text("the ", what_, " is not valid JSON at byte ", at, ", after ", quote(json_.substr(at - shown, shown))));
  }

 private:
  struct Level {
    std::set<std::string, std::less<>> keys;  // ordered: no input can make it slow
    std::string last_key;
  };

  bool pass(const JsonValue& value) {
    visitor_.value(value);
    return true;
  }

  bool open(JsonKind kind) {
    if (open_.size() == kMaxJsonDepth)
      throw FormatError(text("the ", what_, " nests deeper than ", kMaxJsonDepth, " levels"));
    visitor_.value({.kind = kind});
    open_.emplace_back();
    return true;
  }

  bool close() {
    visitor_.close();
    open_.pop_back();
    return true;
  }

  // " in 'a'" for the object that is the value of "a"; nothing at the top.
  std::string place() const {
    return open_.size() < 2 ? std::string() : text(" in ", quote(open_[open_.size() - 2].last_key));
  }

  std::string_view json_;
  std::string_view what_;
  JsonVisitor& visitor_;
  std::vector<Level> open_;
};

}  // namespace

std::string JsonValue::describe() const {
  switch (kind) {
    case JsonKind::null: return "null";
    case JsonKind::boolean: return "a boolean";
    case JsonKind::integer: return text("the number ", integer);
    case JsonKind::negative: return "a number with a minus sign";
    case JsonKind::real: return "a number that is not whole or not below 2^64";
    case JsonKind::string: return "a string";
    case JsonKind::array: return "an array";
    case JsonKind::object: return "an object";
  }
  return "?";
}

void read_strict_json(std::string_view json, std::string_view what, JsonVisitor& visitor) {
  if (const auto at = first_not_utf8(json)) throw FormatError(text("the ", what, " is not UTF-8 at byte ", *at));
  if (json.starts_with("\xEF\xBB\xBF"))
    throw FormatError(text("the ", what, " begins with a byte order mark, which JSON forbids"));
  if (const auto at = json.find('\0'); at != std::string_view::npos)
    throw FormatError(text("the ", what, " has a NUL at byte ", at, ", which JSON allows nowhere"));
  StrictReader reader(json, what, visitor);
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &reader))
    throw FormatError(text("the ", what, " is not valid JSON"));
}

std::optional<size_t> first_not_utf8(std::string_view words) {
  for (size_t at = 0; at < words.size();) {
    const auto length = utf8_length(words, at);
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

std::string quote(std::string_view words) {
  constexpr size_t kShown = 48;
  return "'" + visible(words, kShown) + "'";
}

}  // namespace shade::io
