#include "shade/io/weight_index.h"

#include <filesystem>

#include "shade/base/json.h"
#include "shade/io/errors.h"
#include "shade/io/strict_json.h"
#include "shade/io/untrusted_text.h"

namespace shade::io {
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
