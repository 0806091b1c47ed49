// Configuration fields, declared once.
//
//   struct WatchdogConfig {
//     Seconds peer_timeout{10};
//     void declare(Fields& f) { f.add("peer_timeout", peer_timeout, {.help = "...", .min = 0.5}); }
//   };
//   Config config;
//   config.add("comm", watchdog);
//
// From that one line the field is read from TOML, overridden by `--comm.peer_timeout 5s`, printed by --help with its
// default and unit, validated, and written into result files.
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "shade/base/names.h"
#include "shade/base/units.h"

namespace shade {

// true, 1, on, yes or false, 0, off, no; empty for any other word.
std::optional<bool> parse_switch(std::string_view word);

// What else must be so for a field to have an effect (base/effect.h).
struct Condition {
  std::string on;                     // another field, "optim.optimizer", or a fact of the run, "ranks"
  std::vector<std::string> values{};  // one of these; empty: any but 0, false, none and an empty text or list
};

struct FieldInfo {
  std::string help;
  std::string unit;                // for plain numbers: "samples", "tokens"
  std::optional<double> min, max;  // inclusive; for lists, of every element
  std::vector<std::string> flags;  // spellings on the command line beside --section.key: the usual one, then aliases,
                                   // e.g. "--batch-size"; in files, without the dashes, they are keys of the section
  std::string if_not_given;        // shown as the default where that follows from other fields
  bool common = false;             // one of the most common options: shown by a short --help
  std::vector<std::string> not_offered;  // names of an enum that are for programs, and unknown here
  std::vector<Condition> needs;          // all of them hold, or the field has no effect and giving it is an error
};

// Throws UsageError with the nearest of the names.
void require_offered(std::string_view word, const std::vector<std::string>& names);

// An enum seen through its names.
struct Choice {
  std::vector<std::string> names;
  std::function<std::string()> get;
  std::function<void(std::string_view)> set;
};

class Field {
 public:
  using Value = std::variant<bool*, int64_t*, double*, std::string*, Bytes*, Seconds*, std::vector<int64_t>*,
                             std::vector<Bytes>*, std::vector<std::string>*, Choice>;

  Field(std::string key, Value value, FieldInfo info);

  const std::string& key() const { return key_; }  // "section.name"
  const FieldInfo& info() const { return info_; }
  std::vector<std::string> spellings() const;  // on the command line, with dashes; the first is the usual one
  bool is_switch() const { return std::holds_alternative<bool*>(value_); }
  bool is_list() const;
  bool may_be_empty() const;                   // a text or a list
  bool is_called(std::string_view key) const;  // "section.name", or an alias of it in the same section

  // Parses, validates and assigns; lists are comma-separated. Throws UsageError naming the key.
  void set(std::string_view word);
  void set(std::span<const std::string> elements);          // of a list; an element may have a comma in it
  bool given() const { return given_; }                     // it was set, if only to its default
  const std::string& word() const { return word_; }         // what it was set to; two words may name one value
  bool restated() const { return restated_; }               // it was set to its default
  const std::string& standard() const { return default_; }  // its default, as set() would read it
  std::string type() const;  // switch, integer, number, text, choice, bytes, seconds, or integers, sizes, texts

  const Value& value() const { return value_; }  // what it sets
  std::string str() const;                       // the present value, as set() would read it
  std::string help() const;                      // help text, choices, range, default with its unit

 private:
  void assign(std::string_view word, std::span<const std::string> elements);
  std::string bound(double limit) const;  // a limit in the field's own unit

  std::string key_;
  Value value_;
  FieldInfo info_;
  std::string default_, word_;
  bool given_ = false, restated_ = false;
};

class Fields {
 public:
  Fields(std::string section, std::deque<Field>& into) : section_(std::move(section)), into_(into) {}

  template <class T>
  void add(const std::string& name, T& value, FieldInfo info) {
    Field::Value reference = [&]() -> Field::Value {
      if constexpr (NamedEnum<T>) {
        auto names = all_names<T>();
        for (const auto& other : info.not_offered) std::erase(names, other);
        return Choice{names, [&value] { return to_string(value); },
                      [&value, names](std::string_view word) {
                        require_offered(word, names);
                        value = parse_name<T>(word);
                      }};
      } else {
        return &value;
      }
    }();
    into_.emplace_back(section_ + "." + name, std::move(reference), std::move(info));
  }

 private:
  std::string section_;
  std::deque<Field>& into_;
};

// Which fields were stated, and as which word: what a run means may depend on it.
class Given {
 public:
  bool operator()(const std::string& key) const;   // "section.name"
  std::string word(const std::string& key) const;  // as it was stated; two words may name one value. Empty: it was not
  void state(const std::string& key, const std::string& word) { words_[key] = word; }

 private:
  friend class Config;
  std::map<std::string, std::string> words_;
  std::set<std::string> declared_;  // by the configuration that it is of; empty: it is of none
};

// Refers to the sections it was given; they must outlive it.
class Config {
 public:
  template <class Section>
  void add(const std::string& name, Section& section) {
    Fields fields(name, fields_);
    section.declare(fields);
  }

  // Keys in files that this configuration lacks and `others` has are set there: verbs read each other's files.
  // `others` must outlive it.
  void read_also(Config& others) { others_ = &others; }
  bool reads_other_files() const { return others_ != nullptr; }
  Given stated() const;  // so far, in `others` too
  void read_toml(const std::filesystem::path& file);
  void read_toml_text(std::string_view toml, const std::string& source);
  void set(std::string_view key, std::string_view word);  // '-' and '_' are the same in keys
  bool has(std::string_view key) const;
  bool given(std::string_view key) const;               // by a file or an option; throws UsageError for an unknown key
  const std::string& word(std::string_view key) const;  // the word it was given as; empty: it was not

  std::deque<Field>& fields() { return fields_; }
  const std::deque<Field>& fields() const { return fields_; }

 private:
  size_t find(std::string_view key, const std::string& source) const;  // into fields_

  std::deque<Field> fields_;
  Config* others_ = nullptr;
};

// The values that a configuration field can take, where they are few and known by name.
std::vector<std::string> choices_of(const Field& field);  // of a switch or an enum, as set() reads them; else empty

}  // namespace shade
