#include "shade/catalog/methods.h"

namespace shade::catalog {

std::span<const Name<MethodName>> names_of(MethodName) {
  static const auto kWords = names_in<MethodInfo>(kMethods);
  return kWords;
}

std::vector<MethodName> private_methods() {
  std::vector<MethodName> out;
  for (const auto& row : kMethods)
    if (row.value != MethodName::none) out.push_back(row.value);
  return out;
}

std::string mode_of(std::string_view word) {
  const auto* row = find_row<MethodInfo>(kMethods, word);
  return std::string(row != nullptr && row->name == word ? row->mode_word() : word);
}

std::string method_of(std::string_view mode) {
  constexpr std::string_view kFull = "_fsdp";
  if (mode.ends_with(kFull)) mode.remove_suffix(kFull.size());
  const auto* row = find_row<MethodInfo>(kMethods, mode);
  return std::string(row != nullptr ? row->mode_word() : mode);
}

}  // namespace shade::catalog
