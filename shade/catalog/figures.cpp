#include "shade/catalog/figures.h"

#include <cmath>

#include "shade/base/error.h"

namespace shade::catalog {
namespace {

struct Place {
  std::string object, name;  // object empty: the file itself
};

Place place_of(std::string_view key) {
  const auto dot = key.find('.');
  if (dot == std::string_view::npos) return {.object = "", .name = std::string(key)};
  return {.object = std::string(key.substr(0, dot)), .name = std::string(key.substr(dot + 1))};
}

}  // namespace

std::optional<double> FigureInfo::of(const Figures& figures) const {
  return std::visit([&](auto which) -> std::optional<double> { return figures.*which; }, member);
}

double number_at(const Json& json, std::string_view key) {
  const auto found = json.find(key);
  if (found == json.end()) throw Error(text("'", key, "' is missing; expected a number"));
  if (!found->is_number()) throw Error(text("'", key, "' is ", found->dump(), "; expected a number"));
  return found->get<double>();
}

std::optional<double> number_if(const Json& json, std::string_view key) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return std::nullopt;
  return number_at(json, key);
}

void write_figures(Json& to, const Figures& figures, bool derived) {
  for (const auto& row : kFigures) {
    const auto value = row.of(figures);
    if (!value || (!row.in_files && !derived)) continue;
    const auto [object, name] = place_of(row.key);
    auto& into = object.empty() ? to : to[object];
    const bool whole =
        (row.unit == "bytes" || row.unit == "count") && std::abs(*value) <= 0x1p53 && std::trunc(*value) == *value;
    into[name] = whole ? Json(static_cast<int64_t>(*value)) : Json(*value);
  }
}

void read_figures(Figures& to, const Json& from) {
  for (const auto& row : kFigures) {
    const auto [object, name] = place_of(row.key);
    const bool there = object.empty() || (from.contains(object) && from[object].is_object());
    if (!row.in_files || !there) continue;
    const auto& in = object.empty() ? from : from[object];
    const auto value = row.required ? number_at(in, name) : number_if(in, name);
    if (value) std::visit([&](auto which) { to.*which = *value; }, row.member);
  }
}

}  // namespace shade::catalog
