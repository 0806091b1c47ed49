#include "shade/catalog/parts.h"

#include <algorithm>
#include <cmath>

#include "shade/base/error.h"
#include "shade/catalog/figures.h"

namespace shade::catalog {
namespace {

std::string word_if(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return {};
  if (!found->is_string()) throw Error(text("'", key, "' is ", found->dump(), "; expected a word"));
  return found->get<std::string>();
}

// Where a name stands for nothing it is left out.
void add_word(Json& to, const char* key, const std::string& word) {
  if (!word.empty()) to[key] = word;
}

// A span or a collective: what both have.
template <class Stretch>
void read_stretch(Stretch& to, const Json& from, double step_ms, const char* list) {
  to.name = word_if(from, "name");
  to.from_ms = number_at(from, "from_ms");
  to.to_ms = number_at(from, "to_ms");
  if (to.from_ms > to.to_ms || to.to_ms > 1.5 * step_ms)
    throw Error(text("'timeline.", list, "' holds a stretch that ends before it begins or after its step"));
}

const Json& list_at(const Json& timeline, const char* list) {
  const auto found = timeline.find(list);
  if (found == timeline.end() || !found->is_array()) throw Error(text("'timeline.", list, "' is not a list"));
  return *found;
}

}  // namespace

double amount_of(const Amounts& amounts, const std::string& name) {
  for (const auto& [of, value] : amounts)
    if (of == name) return value;
  return 0;
}

void write_parts(Json& to, const Parts& parts) {
  for (const auto& [key, member] : kParts) {
    if ((parts.*member).empty()) continue;
    auto& into = to[std::string(key)] = Json::object();
    for (const auto& [name, value] : parts.*member) into[name] = value;
  }
}

void read_parts(Parts& to, const Json& from) {
  for (const auto& [key, member] : kParts) {
    const auto found = from.find(key);
    if (found == from.end()) continue;
    if (!found->is_object()) throw Error(text("'", key, "' is not an object of numbers"));
    for (const auto& [name, value] : found->items()) (to.*member).emplace_back(name, number_at(*found, name));
  }
}

std::string PeakOwner::describe() const {
  auto words = text(to_string(bytes), " of ", to_string(kind));
  std::replace(words.begin(), words.end(), '_', ' ');
  if (phase != SpanName::other) words += " in " + to_string(phase);
  if (within != SpanName::other) words += ", " + to_string(within);
  if (!layer.empty()) words += " of " + layer;
  if (!unit.empty()) words += ", unit " + unit;
  return words;
}

Json PeakOwner::json() const {
  const auto word = [](SpanName name) { return name == SpanName::other ? "" : to_string(name); };
  return {{"words", describe()},  {"category", to_string(kind)}, {"mb", std::round(mib(bytes) * 1e3) / 1e3},
          {"phase", word(phase)}, {"within", word(within)},      {"layer", layer},
          {"unit", unit}};
}

Json Timeline::json() const {
  Json out{{"step_ms", step_ms}, {"spans", Json::array()}, {"collectives", Json::array()}};
  for (const auto& span : spans) {
    Json one{{"name", span.name}};
    add_word(one, "of", span.of);
    one.update({{"from_ms", span.from_ms}, {"to_ms", span.to_ms}});
    out["spans"].push_back(std::move(one));
  }
  for (const auto& of : collectives) {
    Json one{{"name", of.name},   {"label", of.label},         {"from_ms", of.from_ms},
             {"to_ms", of.to_ms}, {"waited_ms", of.waited_ms}, {"mb", of.mb}};
    add_word(one, "stream", of.stream);
    out["collectives"].push_back(std::move(one));
  }
  auto& course = out["memory"] = {{"ms", memory.ms}};
  for (const auto& [kind, values] : memory.kinds_mb) course[kind] = values;
  return out;
}

std::optional<Timeline> timeline_in(const Json& result) {
  const auto found = result.find("timeline");
  if (found == result.end() || !found->is_object()) return std::nullopt;
  Timeline out{.step_ms = number_at(*found, "step_ms")};
  for (const auto& entry : list_at(*found, "spans")) {
    auto& span = out.spans.emplace_back();
    read_stretch(span, entry, out.step_ms, "spans");
    span.of = word_if(entry, "of");
  }
  for (const auto& entry : list_at(*found, "collectives")) {
    auto& one = out.collectives.emplace_back();
    read_stretch(one, entry, out.step_ms, "collectives");
    one.label = word_if(entry, "label");
    one.stream = word_if(entry, "stream");
    one.waited_ms = number_if(entry, "waited_ms").value_or(0);
    one.mb = number_if(entry, "mb").value_or(0);
  }
  if (!found->contains("memory") || !found->at("memory").is_object()) return out;
  const auto& memory = found->at("memory");
  out.memory.ms = memory.value("ms", std::vector<double>{});
  for (const auto& [kind, values] : memory.items()) {
    if (!values.is_array() || values.size() != out.memory.ms.size())
      throw Error(text("'timeline.memory.", kind, "' has not one number for each of 'ms'"));
    if (kind != "ms") out.memory.kinds_mb.emplace_back(kind, values.get<std::vector<double>>());
  }
  return out;
}

}  // namespace shade::catalog
