#include "shade/catalog/methods.h"

#include "shade/catalog/strategies.h"

namespace shade::catalog {

std::span<const Name<MethodName>> names_of(MethodName) {
  static const auto kWords = words_of<MethodInfo>(kMethods);
  return kWords;
}

std::vector<MethodName> private_methods() {
  std::vector<MethodName> out;
  for (const auto& row : kMethods)
    if (row.value != MethodName::none) out.push_back(row.value);
  return out;
}

std::string mode_of(std::string_view method, std::string_view strategy) {
  const auto* row = find_row<MethodInfo>(kMethods, method);
  if (row == nullptr) return std::string(method);
  const auto* under = find_row<StrategyInfo>(kStrategies, strategy);
  const bool full = under != nullptr && under->value == Strategy::zero3 && !row->fsdp.empty();
  return std::string(full ? row->fsdp : row->mode_word());
}

std::string mode_without_strategy(std::string_view word) {
  constexpr std::string_view kFull = "_fsdp";
  if (word.ends_with(kFull)) word.remove_suffix(kFull.size());
  return mode_of(word, "");
}

}  // namespace shade::catalog
