#include "shade/io/weight_folder.h"

#include <filesystem>

#include "shade/base/json.h"
#include "shade/io/errors.h"
#include "shade/io/model_file.h"
#include "shade/io/strict_json.h"

namespace shade::io {
namespace {

constexpr size_t kMaxIndex = kMaxSafetensorsHeader;  // bytes

// The file to begin with.
std::filesystem::path entrance(const std::filesystem::path& place) {
  if (!std::filesystem::is_directory(place)) return place;
  const bool single = std::filesystem::exists(place / kWeightsFile);
  const bool index = std::filesystem::exists(place / kWeightsIndex);
  if (single && index)
    throw Error(text(place, " has both ", kWeightsFile, " and ", kWeightsIndex,
                     ", and they may differ; name the one to read, or remove the other"));
  if (!single && !index)
    throw Error(text(place, " has no weights: expected ", kWeightsFile, " or ", kWeightsIndex,
                     "; is it the model's folder, and is the download complete?"));
  return place / (single ? kWeightsFile : kWeightsIndex);
}

WeightMap read_weight_map(const std::filesystem::path& index) {
  const auto map = open_model_file(index.parent_path(), index.filename());
  const auto bytes = map->bytes();
  try {
    if (bytes.size() > kMaxIndex)
      throw FormatError(text("the index has ", bytes.size(), " bytes; at most ", kMaxIndex, " are allowed"));
    return parse_weight_index({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  } catch (const FormatError& fault) {
    throw FormatError(text(index, " is not a sound index: ", fault.what(), "; fetch or write it again"));
  }
}

}  // namespace

bool has_weights(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / kWeightsFile) || std::filesystem::exists(folder / kWeightsIndex);
}

WeightFolder::WeightFolder(const std::filesystem::path& place) : path_(place) {
  const auto begin = entrance(place);
  folder_ = begin.parent_path();
  if (begin.extension() == ".json") {
    read_index(begin);
  } else {
    auto file = std::make_unique<SafetensorsFile>(open_model_file(folder_, begin.filename()));
    for (const auto& [name, info] : file->header().tensors) shard_of_.emplace(name, 0);
    shards_.push_back({begin.filename(), std::move(file)});
  }
}

void WeightFolder::read_index(const std::filesystem::path& index) {
  std::map<std::string, size_t> numbers;
  for (const auto& [tensor, file] : read_weight_map(index)) {
    const auto [entry, added] = numbers.emplace(file, shards_.size());
    if (added) {
      if (!std::filesystem::exists(folder_ / file))
        throw Error(text(index, " places tensor ", quote(tensor), " in ", quote(file),
                         ", which is missing; fetch it, the download may be incomplete"));
      shards_.push_back({file, nullptr});
    }
    shard_of_.emplace(tensor, entry->second);
  }
}

std::vector<std::string> WeightFolder::names() const {
  std::vector<std::string> out;
  for (const auto& [name, shard] : shard_of_) out.push_back(name);
  return out;
}

std::vector<std::filesystem::path> WeightFolder::files() const {
  std::vector<std::filesystem::path> out;
  for (const auto& shard : shards_) out.push_back(folder_ / shard.name);
  return out;
}

const TensorInfo& WeightFolder::info(std::string_view name) const { return holder(name).info(name); }

at::Tensor WeightFolder::tensor(std::string_view name) const { return holder(name).tensor(name); }

at::Tensor WeightFolder::read(std::string_view name, at::ScalarType type) const {
  return holder(name).read(name, type);
}

void WeightFolder::check() const {
  for (size_t shard = 0; shard < shards_.size(); ++shard) open(shard);
}

const SafetensorsFile& WeightFolder::holder(std::string_view name) const {
  const auto found = shard_of_.find(name);
  SHADE_REQUIRE(found != shard_of_.end(), "there is no tensor ", quote(name), " in ", path_, suggestion(name, names()));
  return open(found->second);
}

const SafetensorsFile& WeightFolder::open(size_t shard) const {
  const std::lock_guard lock(mutex_);
  auto& [name, file] = shards_[shard];
  if (!file) {
    auto opened = std::make_unique<SafetensorsFile>(open_model_file(folder_, name));
    compare_with_index(shard, *opened);
    file = std::move(opened);
  }
  return *file;
}

void WeightFolder::compare_with_index(size_t shard, const SafetensorsFile& file) const {
  const auto fail = [](const auto&... parts) {
    throw FormatError(text(parts..., "; index and shards are not of one download, fetch them again"));
  };
  for (const auto& [name, info] : file.header().tensors) {
    const auto indexed = shard_of_.find(name);
    if (indexed == shard_of_.end()) fail("tensor ", quote(name), " is in ", file.path(), " but not in the index");
    if (indexed->second != shard)
      fail("tensor ", quote(name), " is in two shards: ", folder_ / shards_[indexed->second].name,
           " by the index, and ", file.path());
  }
  for (const auto& [name, place] : shard_of_)
    if (place == shard && !file.contains(name))
      fail("tensor ", quote(name), " is in ", file.path(), " by the index, but not in the file");
}

namespace {

// Lexical; open_model_file() looks at where links lead.
void check_inside(std::string_view tensor, std::string_view file) {
  const std::filesystem::path path(file);
  bool inside = path.has_filename() && path.is_relative() && file.find('\0') == std::string_view::npos;
  for (const auto& part : path) inside = inside && part != "..";
  if (!inside)
    throw FormatError(text("the index places tensor ", quote(tensor), " in ", quote(file),
                           ", which is not a file in the folder of the index"));
}

class IndexReader final : public JsonVisitor {
 public:
  void key(std::string_view name) override { key_ = name; }

  void value(const JsonValue& value) override {
    const bool opens = value.kind == JsonKind::object || value.kind == JsonKind::array;
    if (depth_ == 0 && value.kind != JsonKind::object)
      throw FormatError(text("the index must be an object, found ", value.describe()));
    if (depth_ == 1 && key_ == "weight_map") {
      if (value.kind != JsonKind::object)
        throw FormatError(text("the index's weight_map must be an object, found ", value.describe()));
      found = in_map_ = true;
    } else if (in_map_) {
      if (value.kind != JsonKind::string)
        throw FormatError(text("the index must name a file for tensor ", quote(key_), ", found ", value.describe()));
      check_inside(key_, value.string);
      weights.emplace(key_, value.string);
    }
    if (opens) ++depth_;
  }

  void close() override {
    --depth_;
    in_map_ = false;  // nothing opens inside the map: what closes is the map, or is outside it
  }

  WeightMap weights;
  bool found = false;

 private:
  std::string key_;
  int depth_ = 0;
  bool in_map_ = false;
};

}  // namespace

WeightMap parse_weight_index(std::string_view json) {
  IndexReader reader;
  read_strict_json(json, "index", reader);
  if (!reader.found) throw FormatError("the index has no weight_map");
  return std::move(reader.weights);
}

std::string print_weight_index(const WeightMap& weights, uint64_t total_size) {
  nlohmann::json index;  // sorted, unlike Json, whose lookups are linear: there may be 100,000 names
  index["metadata"]["total_size"] = total_size;
  index["weight_map"] = nlohmann::json::object();
  for (const auto& [tensor, file] : weights) index["weight_map"][tensor] = file;
  return index.dump(2) + "\n";
}

}  // namespace shade::io
