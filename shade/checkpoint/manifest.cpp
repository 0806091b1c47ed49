#include "shade/checkpoint/manifest.h"

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <set>

#include "shade/base/explain.h"
#include "shade/io/errors.h"
#include "shade/io/safetensors_header.h"
#include "shade/io/strict_json.h"

namespace shade::checkpoint {
namespace {

using io::FormatError;
using io::quote;

constexpr const char* kManifestFormat = "shade checkpoint";
constexpr int kVersion = 2;
constexpr int64_t kMaxRanks = 1'000'000;
constexpr uint64_t kMaxWhole = uint64_t{1} << 62;
constexpr std::string_view kTail = ",\n\"checksum\": \"", kEnd = "\"}\n";

template <class... Parts>
void rule(bool kept, const Parts&... parts) {
  if (!kept) throw FormatError(text(parts...));
}

// Duplicate keys, depth and encoding are read_strict_json's to refuse; what is added is that no object is so wide that
// looking its keys up takes long.
class Width final : public io::JsonVisitor {
 public:
  void key(std::string_view) override {
    rule(++keys_.back() <= kMaxKeys, "an object of the manifest has more than ", kMaxKeys, " keys");
  }
  void value(const io::JsonValue& value) override {
    if (value.kind == io::JsonKind::object || value.kind == io::JsonKind::array) keys_.push_back(0);
  }
  void close() override { keys_.pop_back(); }

 private:
  std::vector<size_t> keys_;
};

void require_keys(const Json& object, std::string_view what, std::initializer_list<const char*> keys) {
  rule(object.is_object(), what, " must be an object, found ", object.type_name());
  for (const auto* key : keys) rule(object.contains(key), what, " has no '", key, "'");
  for (const auto& [key, value] : object.items())
    rule(std::find(keys.begin(), keys.end(), key) != keys.end(), what, " has the unknown key ", quote(key));
}

int64_t whole(const Json& object, const char* key, int64_t least, int64_t most) {
  const auto& value = object.at(key);
  rule(value.is_number_unsigned() && value.get<uint64_t>() <= kMaxWhole && value.get<int64_t>() >= least &&
           value.get<int64_t>() <= most,
       "'", key, "' must be a whole number from ", least, " to ", most);
  return value.get<int64_t>();
}

std::string word(const Json& value, std::string_view what) {
  rule(value.is_string(), what, " must be a string, found ", value.type_name());
  rule(!value.get_ref<const std::string&>().empty(), what, " is empty");
  return value.get<std::string>();
}

const Json& list(const Json& object, const char* key) {
  rule(object.at(key).is_array(), "'", key, "' must be a list, found ", object.at(key).type_name());
  return object.at(key);
}

SavedWeight weight_of(const Json& json) {
  require_keys(json, "a weight", {"name", "shape", "trainable"});
  SavedWeight out{.name = word(json["name"], "a weight's name")};
  for (const auto& dim : list(json, "shape")) {
    rule(dim.is_number_unsigned() && dim.get<uint64_t>() <= kMaxWhole, "weight ", quote(out.name),
         " has a shape that is none");
    out.shape.push_back(dim.get<int64_t>());
  }
  rule(json["trainable"].is_boolean(), "weight ", quote(out.name), ": 'trainable' must be true or false");
  out.trainable = json["trainable"].get<bool>();
  io::tensor_size(out.name, io::Dtype::f64, out.shape);  // no overflow in any type
  return out;
}

SavedFile file_of(const Json& json, const std::string& expected) {
  require_keys(json, "a file", {"name", "bytes", "header"});
  const auto name = word(json["name"], "a file's name");
  rule(name == expected, "a file is called ", quote(name), ", expected ", expected);
  const auto digest = hash::digest_from_hex(word(json["header"], "a file's digest"));
  rule(digest.has_value(), name, " has a digest that is none");
  return {.bytes = static_cast<uint64_t>(whole(json, "bytes", 1, int64_t{1} << 60)), .header = *digest};
}

Json json_of(const std::string& name, const SavedFile& file) {
  return {{"name", name}, {"bytes", file.bytes}, {"header", hash::to_hex(file.header)}};
}

std::string numbered(const char* kind, size_t rank) {
  char name[48];
  std::snprintf(name, sizeof name, "%s_%05zu.safetensors", kind, rank);
  return name;
}

// State names become a part of tensor names ("exp_avg/weight@0").
bool is_state_name(std::string_view name) {
  return !name.empty() && name != "weight" && name.find_first_of("/@") == std::string_view::npos;
}

Manifest manifest_of(const Json& json) {
  require_keys(json, "the manifest",
               {"format", "version", "caller", "steps", "states", "replicate", "shard", "weights", "files", "frozen",
                "checksum"});
  rule(json["format"] == kManifestFormat, "the manifest is of another format, not '", kManifestFormat, "'");
  rule(json["version"].is_number_unsigned() && json["version"] == kVersion, "the manifest is of version ",
       json["version"].is_number() ? json["version"].dump() : "?", "; this program reads version ", kVersion);
  Manifest out;
  out.caller = json["caller"];
  out.steps = whole(json, "steps", 0, int64_t{1} << 53);
  std::set<std::string> seen;
  for (const auto& name : list(json, "states")) {
    out.states.push_back(word(name, "a state's name"));
    rule(is_state_name(out.states.back()) && seen.insert(out.states.back()).second, "the state name ",
         quote(out.states.back()), " is there twice or can't be one");
  }
  out.replicate = static_cast<int>(whole(json, "replicate", 1, kMaxRanks));
  out.shard = static_cast<int>(whole(json, "shard", 1, kMaxRanks));
  seen.clear();
  for (const auto& weight : list(json, "weights")) {
    out.weights.push_back(weight_of(weight));
    rule(seen.insert(out.weights.back().name).second, "weight ", quote(out.weights.back().name), " is there twice");
  }
  for (const auto& file : list(json, "files")) out.files.push_back(file_of(file, file_name(out.files.size())));
  for (const auto& file : list(json, "frozen")) out.frozen.push_back(file_of(file, frozen_name(out.frozen.size())));
  rule(static_cast<int64_t>(out.files.size()) == int64_t{out.replicate} * out.shard, "there are ", out.files.size(),
       " files; ", out.replicate, " x ", out.shard, " ranks wrote as many");
  rule(out.frozen.empty() || out.frozen.size() == out.files.size(), "there are ", out.frozen.size(),
       " files of frozen weights for ", out.files.size(), " ranks");
  return out;
}

}  // namespace

std::string file_name(size_t rank) { return numbered("rank", rank); }
std::string frozen_name(size_t rank) { return numbered("frozen", rank); }

std::string print_manifest(const Manifest& manifest) {
  Json json{{"format", kManifestFormat}, {"version", kVersion},       {"caller", manifest.caller},
            {"steps", manifest.steps},   {"states", manifest.states}, {"replicate", manifest.replicate},
            {"shard", manifest.shard},   {"weights", Json::array()},  {"files", Json::array()},
            {"frozen", Json::array()}};
  for (const auto& weight : manifest.weights)
    json["weights"].push_back({{"name", weight.name}, {"shape", weight.shape}, {"trainable", weight.trainable}});
  for (size_t i = 0; i < manifest.files.size(); ++i) json["files"].push_back(json_of(file_name(i), manifest.files[i]));
  for (size_t i = 0; i < manifest.frozen.size(); ++i)
    json["frozen"].push_back(json_of(frozen_name(i), manifest.frozen[i]));
  auto body = json.dump(1);
  body.resize(body.size() - 2);  // "\n}"
  const auto printed = text(body, kTail, hash::to_hex(hash::digest_of(body)), kEnd);
  // What is written is what will be read: a NaN, broken UTF-8 or a wide object of the caller's shows here and not after
  // the crash.
  try {
    const auto again = parse_manifest(printed);
    SHADE_REQUIRE(again == manifest, "it would not be read back as it is (a NaN, or an infinity?)");
  } catch (const Error& fault) {
    throw UsageError(text("the manifest can't be written: ", fault.what()));
  }
  return printed;
}

Manifest parse_manifest(std::string_view words) {
  rule(words.size() <= kMaxManifest, "the manifest has ", words.size(), " bytes; at most ", kMaxManifest,
       " are possible");
  const auto tail = kTail.size() + hash::kDigestDigits + kEnd.size();
  rule(words.size() > tail && words.ends_with(kEnd) && words.substr(words.size() - tail).starts_with(kTail),
       "the manifest doesn't end with a checksum: it is cut short, or something else");
  const auto body = words.substr(0, words.size() - tail);
  rule(words.substr(body.size() + kTail.size(), hash::kDigestDigits) == hash::to_hex(hash::digest_of(body)),
       "the manifest is damaged: its checksum is another one");
  Width width;
  io::read_strict_json(words, "manifest", width);
  try {
    return manifest_of(Json::parse(words));
  } catch (const Json::exception& fault) {
    throw FormatError(text("the manifest is not what it should be: ", explain(fault)));
  }
}

}  // namespace shade::checkpoint
