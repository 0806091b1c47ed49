// A model's config.json: each key is read as the type it must have, and each number is held against its range. A fault
// names the file, the key, what is there and what was expected.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shade/base/error.h"
#include "shade/base/json.h"

namespace shade::models {

class ConfigFile {
 public:
  ConfigFile(const Json& json, std::string source);  // both are kept

  bool has(const char* key) const { return find(key) != nullptr; }  // null counts as absent
  bool is_null(const char* key) const;                              // there, and null
  template <class T>
  T get(const char* key, T otherwise) const {
    const auto* value = find(key);
    return value == nullptr ? otherwise : as<T>(key, *value);
  }
  template <class T>
  T need(const char* key) const {
    const auto* value = find(key);
    SHADE_REQUIRE(value != nullptr, source_, ": ", key, " is missing");
    return as<T>(key, *value);
  }
  std::optional<ConfigFile> object(const char* key) const;
  std::vector<std::string> texts(const char* key) const;  // a list of texts; empty if it is absent
  // A classifier's names of classes, by number: id2label; empty if it is absent.
  std::vector<std::string> class_names() const;
  size_t size() const { return json_->size(); }
  const std::string& source() const { return source_; }

 private:
  const Json* find(const char* key) const;
  // A whole number (4.0 is one), a finite number, true or false, or a text.
  template <class T>
  T as(const char* key, const Json& value) const;

  const Json* json_;
  std::string source_;
};

template <>
int64_t ConfigFile::as(const char* key, const Json& value) const;
template <>
double ConfigFile::as(const char* key, const Json& value) const;
template <>
bool ConfigFile::as(const char* key, const Json& value) const;
template <>
std::string ConfigFile::as(const char* key, const Json& value) const;

// Large enough for any model that is known, small enough that the elements of a weight fit an int64_t.
inline constexpr int64_t kMostLayers = 100'000;
inline constexpr int64_t kMostWidth = int64_t{1} << 20;  // of a layer's output, all heads together
inline constexpr int64_t kMostRows = int64_t{1} << 30;   // of an embedding or a head

// A count of a configuration. `option` is how it is set on the command line; empty: it isn't.
struct Count {
  const char* key;
  const char* option;
  int64_t value;
  int64_t most;
};
// 1 to `most`. `source` is the file, with which a message begins; empty: the command line's options are named.
void require_count(const std::string& source, const Count& count);
void require_positive(const std::string& source, const char* key, double value);

// "config.json: ", or nothing.
std::string where(const std::string& source);

}  // namespace shade::models
