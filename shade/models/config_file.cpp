#include "shade/models/config_file.h"

#include <cmath>
#include <limits>

namespace shade::models {
namespace {

std::optional<int64_t> whole(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const auto number = value.get<double>();
  if (number != std::trunc(number) || std::abs(number) > 0x1p53) return std::nullopt;
  return static_cast<int64_t>(number);
}

// As found, but not a page of it.
std::string shown(const Json& value) {
  constexpr size_t kMost = 60;
  auto out = value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  if (out.size() > kMost) out = out.substr(0, kMost) + "...";
  return out;
}

}  // namespace

ConfigFile::ConfigFile(const Json& json, std::string source) : json_(&json), source_(std::move(source)) {
  SHADE_REQUIRE(json.is_object(), source_, " is ", shown(json), "; expected an object with a model's sizes");
}

const Json* ConfigFile::find(const char* key) const {
  const auto found = json_->find(key);
  return found == json_->end() || found->is_null() ? nullptr : &*found;
}

bool ConfigFile::is_null(const char* key) const {
  const auto found = json_->find(key);
  return found != json_->end() && found->is_null();
}

std::optional<ConfigFile> ConfigFile::object(const char* key) const {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  SHADE_REQUIRE(value->is_object(), source_, ": ", key, " is ", shown(*value), "; expected an object");
  return ConfigFile(*value, source_);
}

std::vector<std::string> ConfigFile::texts(const char* key) const {
  const auto* value = find(key);
  if (value == nullptr) return {};
  SHADE_REQUIRE(value->is_array(), source_, ": ", key, " is ", shown(*value), "; expected a list of texts");
  std::vector<std::string> out;
  for (const auto& word : *value) out.push_back(as<std::string>(key, word));
  return out;
}

template <>
int64_t ConfigFile::as(const char* key, const Json& value) const {
  const auto number = whole(value);
  SHADE_REQUIRE(number, source_, ": ", key, " is ", shown(value), "; expected a whole number");
  return *number;
}

template <>
double ConfigFile::as(const char* key, const Json& value) const {
  SHADE_REQUIRE(value.is_number() && std::isfinite(value.get<double>()), source_, ": ", key, " is ", shown(value),
                "; expected a number");
  return value.get<double>();
}

template <>
bool ConfigFile::as(const char* key, const Json& value) const {
  SHADE_REQUIRE(value.is_boolean(), source_, ": ", key, " is ", shown(value), "; expected true or false");
  return value.get<bool>();
}

template <>
std::string ConfigFile::as(const char* key, const Json& value) const {
  SHADE_REQUIRE(value.is_string(), source_, ": ", key, " is ", shown(value), "; expected a text");
  return value.get<std::string>();
}

std::string where(const std::string& source) { return source.empty() ? "" : source + ": "; }

std::vector<std::string> ConfigFile::class_names() const {
  std::vector<std::string> out;
  const auto labels = object("id2label");
  if (!labels) return out;
  for (size_t i = 0; i < labels->size(); ++i) {
    const auto number = std::to_string(i);
    SHADE_REQUIRE(labels->has(number.c_str()), source_, ": id2label has ", labels->size(),
                  " classes, and none of number ", i, "; expected the numbers 0 to ", labels->size() - 1);
    out.push_back(labels->need<std::string>(number.c_str()));
  }
  return out;
}

void require_count(const std::string& source, const Count& count) {
  const bool named = source.empty() && *count.option != '\0';
  SHADE_REQUIRE(count.value >= 1 && count.value <= count.most, where(source), count.key,
                named ? text(" (", count.option, ")") : "", " is ", count.value, "; expected a whole number from 1 to ",
                count.most);
}

void require_positive(const std::string& source, const char* key, double value) {
  SHADE_REQUIRE(value > 0 && std::isfinite(value), where(source), key, " is ", value,
                "; expected a finite number above 0");
}

}  // namespace shade::models
