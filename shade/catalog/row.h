// A table of rows, one for each value of an enum, in the order of the enum: found by value or by any of its words.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "shade/base/names.h"

namespace shade::catalog {

// For static_assert: row_at() takes the value for the row's place.
template <class Row, size_t N>
constexpr bool in_order(const Row (&rows)[N]) {
  for (size_t i = 0; i < N; ++i)
    if (static_cast<size_t>(rows[i].value) != i) return false;
  return true;
}

template <class Row, size_t N>
constexpr const Row& row_at(const Row (&rows)[N], decltype(Row::value) value) {
  return rows[static_cast<size_t>(value)];
}

// By its name or an alias; nullptr: no row has this word.
template <class Row>
const Row* find_row(std::span<const Row> rows, std::string_view word) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row& row) {
    const auto aliases = row.aliases();
    return row.name == word || std::find(aliases.begin(), aliases.end(), word) != aliases.end();
  });
  return found == rows.end() || word.empty() ? nullptr : &*found;
}

// All names, then all aliases: what names_of() gives.
template <class Row>
auto names_in(std::span<const Row> rows) {
  std::vector<Name<decltype(Row::value)>> out;
  for (const auto& row : rows) out.push_back({row.name, row.value});
  for (const auto& row : rows)
    for (const auto alias : row.aliases())
      if (!alias.empty()) out.push_back({alias, row.value});
  return out;
}

}  // namespace shade::catalog
