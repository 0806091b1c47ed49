#include "shade/data/strict_document.h"

#include <string>
#include <vector>

#include "shade/io/strict_json.h"

namespace shade::data {
namespace {

class Builder final : public io::JsonVisitor {
 public:
  void key(std::string_view name) override { key_ = name; }

  void value(const io::JsonValue& value) override {
    auto* placed = place(scalar(value));
    if (value.kind == io::JsonKind::array || value.kind == io::JsonKind::object) open_.push_back(placed);
  }

  void close() override { open_.pop_back(); }

  nlohmann::json take() { return std::move(root_); }

 private:
  static nlohmann::json scalar(const io::JsonValue& value) {
    switch (value.kind) {
      case io::JsonKind::null: return nullptr;
      case io::JsonKind::boolean: return value.boolean;
      case io::JsonKind::integer: return value.integer;
      case io::JsonKind::string: return std::string(value.string);
      case io::JsonKind::array: return nlohmann::json::array();
      case io::JsonKind::object: return nlohmann::json::object();
      default: return 0.5;
    }
  }

  nlohmann::json* place(nlohmann::json&& value) {
    if (open_.empty()) return &(root_ = std::move(value));
    auto& parent = *open_.back();
    if (parent.is_object()) return &(parent[key_] = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }

  nlohmann::json root_;
  std::string key_;
  std::vector<nlohmann::json*> open_;  // a parent doesn't grow while a child of it is open
};

}  // namespace

nlohmann::json read_strict_document(std::string_view json, std::string_view what) {
  Builder builder;
  io::read_strict_json(json, what, builder);
  return builder.take();
}

}  // namespace shade::data
