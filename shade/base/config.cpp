#include "shade/base/config.h"

#define TOML_HEADER_ONLY 1  // a program that links the library needs no library of it
#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>

#include "shade/base/error.h"
#include "shade/base/input_text.h"
#include "shade/base/json.h"
#include "shade/base/strings.h"

namespace shade {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

bool parse_bool(std::string_view word) {
  const auto value = parse_switch(word);
  SHADE_REQUIRE(value, "'", word, "' is not a switch; expected true or false");
  return *value;
}

int64_t parse_whole(std::string_view word) {
  const auto value = parse_integer(word);
  SHADE_REQUIRE(value, "'", word, "' is not a whole number");
  return *value;
}

double parse_finite(std::string_view word) {
  const auto value = parse_real(word);
  SHADE_REQUIRE(value && *value - *value == 0, "'", word, "' is not a finite number");
  return *value;
}

template <class T>
T parse_element(std::string_view word) {
  if constexpr (std::is_same_v<T, int64_t>)
    return parse_whole(word);
  else if constexpr (std::is_same_v<T, Bytes>)
    return parse_bytes(word);
  else
    return std::string(word);
}

double magnitude(int64_t v) { return static_cast<double>(v); }
double magnitude(double v) { return v; }
double magnitude(Bytes v) { return static_cast<double>(v.count); }
double magnitude(Seconds v) { return v.count(); }

std::string print(bool v) { return v ? "true" : "false"; }
std::string print(int64_t v) { return std::to_string(v); }
std::string print(double v) { return Json(v).dump(); }  // shortest text that reads back as the same number
std::string print(const std::string& v) { return v; }
std::string print(Bytes v) {
  for (const auto& [unit, size] : {std::pair{"GiB", GiB(1)}, {"MiB", MiB(1)}, {"KiB", KiB(1)}})
    if (v.count != 0 && v.count % size.count == 0) return text(v.count / size.count, unit);
  return std::to_string(v.count);
}
std::string print(Seconds v) { return print(v.count()) + "s"; }
template <class T>
std::string print(const std::vector<T>& list) {
  std::vector<std::string> words;
  for (const auto& element : list) words.push_back(print(element));
  return join(words, ",");
}

Json typed(bool v) { return v; }
Json typed(int64_t v) { return v; }
Json typed(double v) { return v; }
Json typed(const std::string& v) { return v; }
Json typed(Bytes v) { return v.count; }
Json typed(Seconds v) { return v.count(); }
template <class T>
Json typed(const std::vector<T>& list) {
  Json out = Json::array();
  for (const auto& element : list) out.push_back(typed(element));
  return out;
}

std::string normal(std::string_view key) {
  std::string out(key);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

// The word that Field::set would read, whatever the TOML type: one parser serves files and the command line.
std::string toml_word(const toml::node& node, const std::string& key, const std::string& source) {
  if (const auto* v = node.as_string()) return v->get();
  if (const auto* v = node.as_integer()) return std::to_string(v->get());
  if (const auto* v = node.as_floating_point()) return Json(v->get()).dump();
  if (const auto* v = node.as_boolean()) return v->get() ? "true" : "false";
  throw UsageError(
      text(source, ": ", key, " has a value of an unexpected type; expected text, a number, a switch or a list"));
}

void set_from_toml(Field& field, const toml::node& node, const std::string& key, const std::string& source) {
  const auto* list = node.as_array();
  if (list == nullptr) return field.set(toml_word(node, key, source));
  std::vector<std::string> elements;
  for (const auto& element : *list) elements.push_back(toml_word(element, key, source));
  field.set(elements);
}

// What a person most likely did in a line that is not TOML; empty: unknown.
std::string advice_for(std::string_view document, size_t line, std::string_view fault) {
  const auto lines = split(document, '\n');
  if (line == 0 || line > lines.size()) return {};
  const std::string_view written = lines[line - 1];
  const auto equals = written.find('=');
  if (equals == std::string_view::npos && fault.find("key-value pair") == std::string_view::npos) return {};
  if (equals == std::string_view::npos)
    return text("'", trim(written), "' is neither a [section] nor a key with a value; expected KEY = VALUE");
  const auto key = trim(written.substr(0, equals)), value = trim(written.substr(equals + 1));
  if (value.empty()) return text("'", key, "' has no value; expected ", key, " = VALUE");
  const auto letter = static_cast<unsigned char>(value.front());
  if (std::isalpha(letter) == 0 && letter != '/' && letter != '~' && letter != '@' && letter != '.') return {};
  return text("'", value, "' is not a value of TOML; expected a number, true, false, a list, or text in quotes: ", key,
              " = \"", value, "\"");
}

}  // namespace

std::optional<bool> parse_switch(std::string_view word) {
  if (word == "true" || word == "1" || word == "on" || word == "yes") return true;
  if (word == "false" || word == "0" || word == "off" || word == "no") return false;
  return std::nullopt;
}

void require_offered(std::string_view word, const std::vector<std::string>& names) {
  SHADE_REQUIRE(std::find(names.begin(), names.end(), word) != names.end(), "'", word, "' is unknown; expected one of ",
                join(names, ", "), suggestion(word, names));
}

Field::Field(std::string key, Value value, FieldInfo info)
    : key_(std::move(key)), value_(std::move(value)), info_(std::move(info)), default_(str()) {}

void Field::set(std::string_view word) {
  std::vector<std::string> elements;
  if (!word.empty())
    for (const auto& part : split(word, ',')) elements.emplace_back(trim(part));
  assign(word, elements);
}

void Field::set(std::span<const std::string> elements) { assign(join(elements, ","), elements); }

// A field takes the word, a list its elements.
void Field::assign(std::string_view word, std::span<const std::string> elements) {
  const auto check = [&](const auto& value) {
    const double size = magnitude(value);
    const auto limit = [&](const char* relation, double bound) {
      throw UsageError(text("'", word, "' is out of range; expected ", relation, " ", print(bound),
                            info_.unit.empty() ? "" : " ", info_.unit));
    };
    if (info_.min && size < *info_.min) limit("at least", *info_.min);
    if (info_.max && size > *info_.max) limit("at most", *info_.max);
  };
  try {
    std::visit(Overloaded{
                   [&](bool* v) { *v = parse_bool(word); },
                   [&](std::string* v) { *v = word; },
                   [&](int64_t* v) {
                     const auto n = parse_whole(word);
                     check(n);
                     *v = n;
                   },
                   [&](double* v) {
                     const auto n = parse_finite(word);
                     check(n);
                     *v = n;
                   },
                   [&](Bytes* v) {
                     const auto n = parse_bytes(word);
                     check(n);
                     *v = n;
                   },
                   [&](Seconds* v) {
                     const auto n = parse_seconds(word);
                     check(n);
                     *v = n;
                   },
                   [&]<class T>(std::vector<T>* v) {
                     std::vector<T> list;
                     for (const auto& element : elements) {
                       list.push_back(parse_element<T>(element));
                       if constexpr (!std::is_same_v<T, std::string>) check(list.back());
                     }
                     *v = std::move(list);
                   },
                   [&](Choice& v) { v.set(word); },
               },
               value_);
  } catch (const UsageError& fault) {
    throw UsageError(text(key_, ": ", fault.what()));
  }
  given_ = true;
  restated_ = str() == default_;
  word_ = word;
}

std::string Field::str() const {
  return std::visit(Overloaded{[](const Choice& v) { return v.get(); }, [](const auto* v) { return print(*v); }},
                    value_);
}

Json json_values(const Field& field) {
  return std::visit(Overloaded{[](const Choice& v) { return Json(v.get()); }, [](const auto* v) { return typed(*v); }},
                    field.value());
}

bool Field::is_list() const {
  return std::visit(Overloaded{[](const Choice&) { return false; }, []<class T>(std::vector<T>*) { return true; },
                               [](auto*) { return false; }},
                    value_);
}

std::string Field::type() const {
  return std::visit(
      Overloaded{[](bool*) { return "switch"; }, [](int64_t*) { return "integer"; }, [](double*) { return "number"; },
                 [](std::string*) { return "text"; }, [](Bytes*) { return "bytes"; },
                 [](Seconds*) { return "seconds"; }, [](std::vector<int64_t>*) { return "integers"; },
                 [](std::vector<Bytes>*) { return "sizes"; }, [](std::vector<std::string>*) { return "texts"; },
                 [](const Choice&) { return "choice"; }},
      value_);
}

bool Field::may_be_empty() const { return is_list() || std::holds_alternative<std::string*>(value_); }

bool Field::is_called(std::string_view key) const {
  const auto wanted = normal(key);
  const auto dot = key_.find('.') + 1;
  if (wanted == key_) return true;
  if (!wanted.starts_with(key_.substr(0, dot))) return false;
  const auto option = dashed("--" + wanted.substr(dot));
  return std::find(info_.flags.begin(), info_.flags.end(), option) != info_.flags.end();
}

std::vector<std::string> Field::spellings() const {
  auto out = info_.flags;
  out.push_back(dashed("--" + key_));
  return out;
}

std::string Field::bound(double limit) const {
  const auto whole = [&] { return static_cast<int64_t>(limit); };
  return std::visit(
      Overloaded{[&](Seconds*) { return print(Seconds(limit)); }, [&](Bytes*) { return print(Bytes{whole()}); },
                 [&](std::vector<Bytes>*) { return print(Bytes{whole()}); }, [&](int64_t*) { return print(whole()); },
                 [&](std::vector<int64_t>*) { return print(whole()); }, [&](const auto&) { return print(limit); }},
      value_);
}

std::string Field::help() const {
  std::string out = info_.help;
  if (const auto* choice = std::get_if<Choice>(&value_)) out += text(": ", join(choice->names, "|"));
  if (info_.min && info_.max)
    out += text(" (", bound(*info_.min), " to ", bound(*info_.max), ")");
  else if (info_.min)
    out += text(" (at least ", bound(*info_.min), ")");
  else if (info_.max)
    out += text(" (at most ", bound(*info_.max), ")");
  if (!info_.if_not_given.empty()) return text(out, " [", info_.if_not_given, "]");
  out += text(" [", default_.empty() ? "not set" : default_, info_.unit.empty() ? "" : " ", info_.unit, "]");
  return out;
}

size_t Config::find(std::string_view key, const std::string& source) const {
  const auto wanted = normal(key);
  std::vector<std::string> keys;
  for (const auto& field : fields_) keys.push_back(field.key());
  if (const auto own = std::find(keys.begin(), keys.end(), wanted); own != keys.end())
    return static_cast<size_t>(own - keys.begin());
  for (size_t i = 0; i < fields_.size(); ++i)
    if (fields_[i].is_called(wanted)) return i;
  // The right word in the wrong section, or an option's name, is likelier than a slip.
  const auto name = wanted.substr(wanted.find('.') + 1);
  const auto option = dashed("--" + name);
  auto guess = suggestion(wanted, keys);
  for (const auto& field : fields_) {
    const auto names = field.spellings();
    if (field.key().ends_with("." + name) || std::find(names.begin(), names.end(), option) != names.end())
      guess = text("; did you mean '", field.key(), "'?");
  }
  throw UsageError(text(source.empty() ? "" : source + ": ", "unknown key '", key, "'", guess));
}

bool Config::has(std::string_view key) const {
  return std::any_of(fields_.begin(), fields_.end(), [&](const Field& field) { return field.is_called(key); });
}

void Config::set(std::string_view key, std::string_view word) { fields_[find(key, "")].set(word); }

bool Config::given(std::string_view key) const { return fields_[find(key, "")].given(); }

const std::string& Config::word(std::string_view key) const { return fields_[find(key, "")].word(); }

void Config::read_toml(const std::filesystem::path& file) {
  SHADE_REQUIRE(!std::filesystem::is_directory(file), file, " is a folder; expected a TOML file");
  SHADE_REQUIRE(::access(file.c_str(), R_OK) == 0, "cannot read the configuration ", file, "; expected a TOML file");
  read_toml_text(read_text(file, MiB(16)), file.string());
}

void Config::read_toml_text(std::string_view toml_text, const std::string& source) {
  toml::table document;
  try {
    document = toml::parse(toml_text, source);
  } catch (const toml::parse_error& fault) {
    const auto& at = fault.source().begin;
    const auto advice = advice_for(toml_text, at.line, fault.description());
    throw UsageError(advice.empty() ? text(source, ":", at.line, ":", at.column, ": ", fault.description())
                                    : text(source, ":", at.line, ": ", advice));
  }
  SHADE_REQUIRE(!document.empty(), source, " sets nothing; expected sections with keys, e.g. [train] and steps = 100");
  std::map<const Field*, std::string> seen;
  const auto set_fields = [&](Config& owner, const std::string& section, const toml::table& table) {
    for (const auto& [name, value] : table) {
      const auto key = text(section, ".", name.str());
      if ((others_ != nullptr && !has(key) && others_->has(key)) != (&owner == others_)) continue;
      auto& field = owner.fields_[owner.find(key, text(source, ":", value.source().begin.line))];
      const auto [earlier, first] = seen.emplace(&field, key);
      SHADE_REQUIRE(first, source, ":", value.source().begin.line, ": '", earlier->second, "' and '", key,
                    "' are two names of one field; drop one of them");
      try {
        set_from_toml(field, value, key, source);
      } catch (const UsageError& fault) {
        throw UsageError(text(source, ":", value.source().begin.line, ": ", fault.what()));
      }
    }
  };
  for (const auto& [section, node] : document)
    SHADE_REQUIRE(node.is_table(), source, ": '", section.str(),
                  "' is outside a [section]; expected keys inside sections");
  // Fields of both may be one variable: what is said in this configuration's own words holds.
  for (auto* owner : {others_, this})
    if (owner != nullptr)
      for (const auto& [section, node] : document) set_fields(*owner, std::string(section.str()), *node.as_table());
}

bool Given::operator()(const std::string& key) const {
  SHADE_CHECK(declared_.empty() || declared_.contains(key), "whether ", key, " was stated, which no section declares");
  return words_.contains(key);
}

std::string Given::word(const std::string& key) const {
  const auto found = words_.find(key);
  return found == words_.end() ? std::string() : found->second;
}

Given Config::stated() const {
  Given out = others_ != nullptr ? others_->stated() : Given();
  for (const auto& field : fields_) {
    out.declared_.insert(field.key());
    if (field.given()) out.words_[field.key()] = field.word();
  }
  return out;
}

Json json_values(const Config& config) {
  Json out = Json::object();
  for (const auto& field : config.fields()) {
    const auto dot = field.key().find('.');
    out[field.key().substr(0, dot)][field.key().substr(dot + 1)] = json_values(field);
  }
  return out;
}

// Of an enum alone a colon follows the declared words in Field::help(), then "a|b|c", a range and the default.
std::vector<std::string> choices_of(const Field& field) {
  if (field.is_switch()) return {"true", "false"};
  const auto help = field.help();
  const auto declared = field.info().help + ": ";
  if (!help.starts_with(declared)) return {};
  return split(help.substr(declared.size(), help.find(' ', declared.size()) - declared.size()), '|');
}

}  // namespace shade
