// Names of enum values, written once: an enum offers `names_of(E)` beside it and gets to_string, parse and help.
//
//   enum class Backend { gloo, nccl };
//   inline std::span<const Name<Backend>> names_of(Backend) {
//     static constexpr Name<Backend> kNames[] = {{"gloo", Backend::gloo}, {"nccl", Backend::nccl}};
//     return kNames;
//   }
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "shade/base/error.h"
#include "shade/base/strings.h"

namespace shade {

template <class E>
struct Name {
  std::string_view name;
  E value;  // the first name of a value is the one printed; later ones are aliases
};

template <class E>
concept NamedEnum = std::is_enum_v<E> && requires(E e) { names_of(e); };

template <NamedEnum E>
std::string to_string(E value) {
  for (const auto& [name, candidate] : names_of(value))
    if (candidate == value) return std::string(name);
  return "?";
}

template <NamedEnum E>
std::vector<std::string> all_names() {
  std::vector<std::string> out;
  for (const auto& entry : names_of(E{})) out.emplace_back(entry.name);
  return out;
}

template <NamedEnum E>
E parse_name(std::string_view word) {
  for (const auto& [name, value] : names_of(E{}))
    if (name == word) return value;
  const auto names = all_names<E>();
  throw UsageError(text("'", word, "' is unknown; expected one of ", join(names, ", "), suggestion(word, names)));
}

}  // namespace shade
