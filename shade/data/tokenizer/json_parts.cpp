#include "shade/data/tokenizer/json_parts.h"

#include "shade/base/error.h"
#include "shade/io/errors.h"
#include "shade/io/untrusted_text.h"

namespace shade::data {

void refuse(std::string_view what) { throw io::FormatError(std::string(what)); }

const Document& member(const Document& object, const std::string& name) {
  static const Document kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

const Document& object_in(const Document& parent, const std::string& name) {
  const auto& value = member(parent, name);
  if (!value.is_object()) refuse(text("'", name, "' must be an object"));
  return value;
}

const Document& array_in(const Document& parent, const std::string& name) {
  const auto& value = member(parent, name);
  if (!value.is_array()) refuse(text("'", name, "' must be an array"));
  return value;
}

bool truth_in(const Document& parent, const std::string& name, bool otherwise) {
  const auto& value = member(parent, name);
  if (value.is_null()) return otherwise;
  if (!value.is_boolean()) refuse(text("'", name, "' must be true or false"));
  return value.get<bool>();
}

const std::string& words_in(const Document& parent, const std::string& name) {
  const auto& value = member(parent, name);
  if (!value.is_string()) refuse(text("'", name, "' must be a string"));
  return value.get_ref<const std::string&>();
}

TokenId id_of(const Document& value, std::string_view token) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > static_cast<uint64_t>(kMaxTokenId))
    refuse(text("the id of ", io::quote(token), " must be a whole number up to ", kMaxTokenId));
  return static_cast<TokenId>(value.get<uint64_t>());
}

void require_false(const Document& part, const char* name, bool otherwise) {
  if (truth_in(part, name, otherwise)) refuse(text("'", name, "' is true, which is not read here"));
}

std::string type_of(const Document& step, const char* what) {
  if (!step.is_object()) refuse(text("the ", what, " must be an object"));
  return words_in(step, "type");
}

std::vector<Document> steps_of(const Document& step, const char* what, const char* list) {
  if (step.is_null()) return {};
  if (type_of(step, what) != "Sequence") return {step};
  const auto& steps = array_in(step, list);
  return {steps.begin(), steps.end()};
}

}  // namespace shade::data
